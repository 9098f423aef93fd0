"""Computes the numbers of stored runs again from their raw files, for ``zonelab verify``."""
