"""The runner: guard, journal, lock, the life of a run, its ledger."""
