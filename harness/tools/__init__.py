"""One module per external tool, with upstream's names of flags, ``argv()`` and ``parse()``."""
