"""Computes numbers, issues and status of stored runs again, for ``zonelab verify``."""
