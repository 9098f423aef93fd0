"""The host's Debian mirror and apt settings, which an image build uses too.

The project names no package host. On a Debian host its own mirror is used, elsewhere the default of
mmdebstrap.
"""

from __future__ import annotations

import re
from pathlib import Path

from harness.tools import proc

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX_FORMAT = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"

# Settings that decide whether a download works from this host. All others belong to the image.
_PASSED_ON = re.compile(
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
    return tuple(f'{name} "{value}"' for name, value in _PASSED_ON.findall(text))


def mirror() -> str | None:
    """Return this host's Debian mirror, or None on a host that is not Debian."""
    argv = ["apt-get", "indextargets", "--format", INDEX_FORMAT]
    return parse_mirror(proc.run(argv, timeout=60).stdout)


def options() -> tuple[str, ...]:
    """Return the apt settings that the image build takes from this host."""
    return parse_options(proc.run(["apt-config", "dump"], timeout=60).stdout)
