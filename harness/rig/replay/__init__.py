"""Runs of timed rigs again, in a guest that nothing of this machine's time reaches."""
