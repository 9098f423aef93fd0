"""The command line: one module per sub-command, imported only when it is used."""
