"""Compares models of drives with measured points."""
