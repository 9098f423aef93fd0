"""Replay of the zone allocations that zlfs recorded, with other settings (docs/replay.md)."""
