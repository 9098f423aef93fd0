"""Observation of a machine: inspection, counters, zone reports, kernel log, traces."""
