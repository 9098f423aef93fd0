"""How this host reaches the distribution: its mirror and its apt settings, handed on to the image.

The project names no package host. A Debian host's own mirror is used; mmdebstrap knows one for
others.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.tools import proc

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX_FORMAT = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"

# What decides whether a download works from here; everything else is the image's own business.
_HANDED_ON = re.compile(
    r'^(Acquire::(?:https?::|Retries|Check-Valid-Until|Check-Date)[^ ]*) "(.+)";$', re.MULTILINE
)


def parse_mirror(text: str) -> str | None:
    """Return the URI of the main Debian archive in ``apt-get indextargets`` output, or None."""
    for line in text.splitlines():
        origin, label, component, uri = ([*line.split("|"), "", "", ""])[:4]
        if (origin, label, component) == ("Debian", "Debian", "main"):
            return uri.rstrip("/")
    return None


def parse_options(text: str) -> tuple[str, ...]:
    """Return the proxy and date settings in ``apt-config dump`` output as apt options."""
    return tuple(f'{name} "{value}"' for name, value in _HANDED_ON.findall(text))


def mirror() -> str | None:
    """Return this host's Debian mirror, None on hosts that are not Debian."""
    argv = ["apt-get", "indextargets", "--format", INDEX_FORMAT]
    return parse_mirror(proc.run(argv, timeout=60).stdout)


def options() -> tuple[str, ...]:
    """Return this host's apt settings that the image build must share."""
    return parse_options(proc.run(["apt-config", "dump"], timeout=60).stdout)
