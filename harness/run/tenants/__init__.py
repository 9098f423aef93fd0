"""Runs of several tenants: each on its part of a drive, all of them measured at once."""
