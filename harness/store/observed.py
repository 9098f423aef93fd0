"""``raw/observed.json``: inputs of the rules that no other raw file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.store.codec import SCHEMA_VERSION
from harness.store.result import Issue, Status, Utilisation
from harness.store.spec import Device, Reason

NAME = "raw/observed.json"


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """Facts about all tenants of a run.

    ``died`` names the tenant that failed and how, '' if none did. ``units``: each tenant had its
    own systemd unit. ``spread`` is the time in seconds between the first and the last end of
    tenants that last to the end.
    """

    died: str = ""
    units: bool = True
    spread: float = 0.0
    harness_seconds: float | None = None  # CPU time of the harness while all tenants ran


@dataclass(frozen=True, slots=True)
class ObservedTenant:
    """A tenant as the rules judge it. ``stopped``: the runner ended it, because another died."""

    device: Device  # its slice, or the whole device
    conventional: Device | None  # its slice of the conventional device
    utilisation: Utilisation | None  # null: not reached, or another tenant owns the files
    stopped: bool
    findings: tuple[Issue, ...]  # what the checker of its level found


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """Inputs of the rules, so that ``zonelab verify`` can judge the run again.

    ``samples`` and ``digests`` have the files in series/; they are null if nothing was judged.
    """

    ended: Status  # how the run ended, before the rules judged it
    reason: Reason | None  # why it failed or was skipped
    rules: tuple[str, ...]  # codes of the issues that were looked for
    kernel_log_lines: int | None  # lines of raw/kernel.log; null: it could not be read
    clock_jump: float  # drift of real time against monotonic time, in seconds
    untraced: Reason | None  # why commands were not traced
    findings: tuple[Issue, ...]  # what the checkers of levels and the tracer found
    longest_gap: float  # longest time between samples in s
    samples: Mapping[str, int] | None = None  # lines of each file
    digests: Mapping[str, str] | None = None  # SHA-256 of each file
    kernel_log_digest: str | None = None  # SHA-256 of raw/kernel.log; null: it could not be read
    together: TenantFacts | None = None  # of a run with tenants; null: a plain run
    tenants: Mapping[str, ObservedTenant] | None = None  # those that began; null: a plain run
    idle_written: None = None  # without a meaning; files of this schema have it
    schema_version: int = SCHEMA_VERSION  # of this file
