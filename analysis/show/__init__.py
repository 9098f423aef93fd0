"""Renders comparisons: text, tables, figures and the report."""
