"""Reads a campaign's files into typed records and series."""
