"""Replays of runs of timed rigs, in a guest that does not depend on this machine's time."""
