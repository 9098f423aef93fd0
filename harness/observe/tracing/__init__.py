"""Tracing of commands to block devices: counts of commands, and the history of each zone."""
