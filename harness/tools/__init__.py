"""One module per external tool: flags named as upstream, ``argv()``, ``parse()``; plus ``proc``."""
