"""Measurements of others as campaigns."""
