"""From a campaign's files to tables, verdicts and the report. Reads results, never writes runs."""
