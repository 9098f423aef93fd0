"""Facts of a phase between two barriers; the runner and ``zonelab verify`` collect them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.errors import ConfigError, ToolFailed
from harness.observe.diskstats import DiskCounters
from harness.observe.threads import ThreadUse
from harness.observe.tracing.zone_history import traced
from harness.rules.facts import PhaseFacts
from harness.run.ledger import BarrierSnapshot
from harness.store.codec import decode
from harness.store.ledger import Snapshot
from harness.store.spec import PhaseSpec
from harness.tools.rocksdb_log import Log
from harness.workloads import program_of


def collect(
    spec: PhaseSpec,
    before: BarrierSnapshot,
    after: BarrierSnapshot,
    process: Mapping[str, Any],
    texts: tuple[str, str],
    *,
    log_end: Callable[[], str],
    read_log: Callable[[], Log | None],
) -> PhaseFacts:
    """Return the facts of a phase. No number is taken from output that cannot be read.

    Args:
        spec: the phase as planned.
        before: the barrier before it.
        after: the barrier after it.
        process: the content of ``raw/<phase>.process.json``.
        texts: what the program printed on stdout and stderr.
        log_end: returns the end of RocksDB's LOG.
        read_log: returns the whole LOG, null if the level does not show it.
    """
    parsed, lsm, error, code, database_log = None, None, "", "", ""
    try:
        database_log = log_end()
        lsm = read_log()
        parsed = program_of(spec).parse(spec, *texts)
    except (ToolFailed, ConfigError) as failure:
        error, code = failure.message, failure.code
    first, last, requests = before.counters, after.counters, process.get("requests") or {}
    return PhaseFacts(
        spec=spec,
        parsed=parsed,
        parse_error=error,
        exit_code=process.get("exit_code"),
        signal=process.get("signal"),
        timed_out=bool(process.get("timed_out")),
        stalled=bool(process.get("stalled")),
        output="\n".join(texts),
        database_log=database_log,
        zoned=_delta(first, last, last.zoned, requests.get("zoned")),
        conventional=_delta(first, last, last.conventional, requests.get("conventional")),
        before=before.usage,
        after=after.usage,
        zones=after.zones,
        load_seconds=process.get("load_seconds"),
        harness_seconds=process.get("harness_seconds"),
        load_instructions=process.get("load_instructions"),
        busy_seconds=process.get("busy_seconds"),
        threads=decode(dict[str, ThreadUse], process.get("threads") or {}),
        lsm=lsm,
        seconds=process.get("seconds"),
        traced=traced(first, last),
        completed=last.completed_since(first),
        parse_code=code,
    )


def requests(before: Snapshot, after: Snapshot) -> dict[str, list[int]]:
    """Return the numbers of reads and writes of each device between two barriers."""
    found = {}
    for what, name in (("zoned", after.zoned), ("conventional", after.conventional)):
        if name:
            first, last = before.requests[name], after.requests[name]
            found[what] = [last.reads - first.reads, last.writes - first.writes]
    return found


def _delta(
    first: Snapshot, last: Snapshot, name: str, requests: Sequence[int] | None
) -> DiskCounters | None:
    """Return the bytes of a device between two barriers; requests that were not stored are 0."""
    if not name:
        return None
    reads, writes = requests or (0, 0)
    merged = [one.requests[name].writes_merged for one in (first, last) if name in one.requests]
    return DiskCounters(
        reads=reads,
        read_bytes=last.read_for_run(name) - first.read_for_run(name),
        writes=writes,
        write_bytes=last.written[name] - first.written[name],
        in_flight=0,
        busy_ms=last.busy_for_run(name) - first.busy_for_run(name),
        writes_merged=merged[1] - merged[0] if len(merged) == len((first, last)) else 0,
    )
