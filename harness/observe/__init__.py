"""What is there and what happens: inspection, counters, zone reports, kernel log, manifest."""
