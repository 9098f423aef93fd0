"""ssh-keygen's signatures of files (OpenSSH 8.2 or newer, PROTOCOL.sshsig)."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import ToolFailed
from harness.tools import proc

PROGRAM = "ssh-keygen"
# The namespace of signatures: a signature for one purpose is not valid for another one.
NAMESPACE = "zonelab"
# 'Good "zonelab" signature with ED25519 key SHA256:…', and with names 'Good "zonelab" signature
# for alice@example.org with ED25519 key SHA256:…'.
_GOOD = re.compile(r'^Good "[^"]*" signature (?:for .* )?with (?P<key>\S+ key SHA256:\S+)', re.M)


def sign(key: Path, message: str) -> str:
    """Return the signature of a message; ``key`` can be a key in an agent.

    Raises:
        HostError: ssh-keygen is not installed.
        ToolFailed: the key cannot be used.
    """
    argv = [PROGRAM, "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key)]
    return proc.run(argv, stdin=message).stdout


def key_of(signature: Path, message: str) -> str:
    """Return type and fingerprint of the key that signed a message. A name is not checked.

    Raises:
        HostError: ssh-keygen is not installed.
        ToolFailed: the signature is not of this message.
    """
    argv = [PROGRAM, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    done = proc.run(argv, stdin=message)
    match = _GOOD.search(done.stdout)
    if match is None:
        raise ToolFailed(
            f"ssh-keygen printed no key: {done.stdout.strip()[:120]}", code="output-malformed"
        )
    return match["key"]


def signer_of(signature: Path, message: str, allowed: Path) -> str:
    """Return the name of the signer in a file of allowed signers.

    Raises:
        HostError: ssh-keygen is not installed.
        ToolFailed: no allowed signer made this signature of this message.
    """
    files = ["-s", str(signature), "-f", str(allowed)]
    found = proc.run([PROGRAM, "-Y", "find-principals", *files], stdin=message)
    name = found.stdout.partition("\n")[0]
    proc.run([PROGRAM, "-Y", "verify", "-n", NAMESPACE, "-I", name, *files], stdin=message)
    return name
