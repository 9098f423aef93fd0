"""Holds models of drives against measured points."""
