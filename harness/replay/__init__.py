"""Recorded traces of zlfs' allocations at other settings (docs/replay.md)."""
