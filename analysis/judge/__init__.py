"""Compares runs: statistics, comparability, verdicts, claims."""
