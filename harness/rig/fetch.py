"""Copy finished runs from a rig while it is up: its disk is lost when it stops."""

from __future__ import annotations

import base64
import shlex
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import ToolFailed, ZonelabError
from harness.machine.paths import RUNTIME, STATE, Paths
from harness.rig import guest, state
from harness.rig.model import Rig, hosts_of
from harness.store import collected
from harness.store.campaign import CampaignPaths

_PATHS = Paths(STATE, RUNTIME)
_EVERY = 30.0  # seconds; a fetch loads the guest as much as a progress query of the playbook
_LONGEST = 120.0  # seconds


@contextmanager
def fetching(rig: Rig, campaign: CampaignPaths) -> Iterator[None]:
    """Copy finished runs into the campaign during a ``with`` statement.

    A fetch that fails, for instance before the boot, is tried again.
    """
    names = [one.name for one in hosts_of(rig)]
    ended = threading.Event()
    thread = threading.Thread(target=_fetch_until, args=(names, campaign, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _fetch_until(names: list[str], campaign: CampaignPaths, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        for name in names:
            with suppress(ZonelabError, OSError):
                if state.read(name) is not None:
                    fetch(name, campaign)


def fetch(name: str, campaign: CampaignPaths) -> list[str]:
    """Copy the finished runs of a machine that the campaign lacks; return their names.

    Raises:
        ZonelabError: the guest does not answer, has runs of another study, or runs arrive damaged.
    """
    if not campaign.plan.exists():  # runs that are there already can be of another study
        return []
    there = _PATHS.runs(campaign.root.name)
    into = campaign.host(state.host_name(name))
    listed = guest.run(name, f"ls {shlex.quote(str(there))}", timeout=_LONGEST).stdout.split()
    missing = [run for run in listed if not (into / "runs" / run).exists()]
    if not missing:
        return []
    # base64, because the output of ssh is decoded as text.
    pack = f"tar -C {shlex.quote(str(there))} -c {shlex.join(missing)} -C .. plan.json | base64 -w0"
    packed = guest.run(name, pack, timeout=_LONGEST).stdout
    try:
        content = base64.b64decode(packed)
    except ValueError:
        raise ToolFailed(f"the output of {there} was cut off", hint="collect again") from None
    with tempfile.NamedTemporaryFile(prefix="zonelab-runs-", suffix=".tar") as archive:
        archive.write(content)
        archive.flush()
        return collected.collect(Path(archive.name), into).new
