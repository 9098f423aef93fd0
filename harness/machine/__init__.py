"""The machine under test: its devices, the guard, the journal, locks, processors and manifest."""
