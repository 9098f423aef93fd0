"""From a number on the page to the file that it was computed from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from analysis.load import CampaignData, RunRecord
from harness.store import packed

RESULT = "result.json"
_PRINTED = ("raw/{phase}.stdout",)
_HISTOGRAM = ("histograms/{phase}.*.json",)
_LOG = ("raw/{phase}.LOG",)
_COUNTERS = ("raw/{phase}.counters.json",)
_PROCESS = ("raw/{phase}.process.json",)
_ZONES = ("raw/{phase}.zones.csv",)
_USAGE = ("raw/{phase}.usage.json",)
_LEDGER = ("ledger.json", *_USAGE, *_COUNTERS, *_ZONES)
# Metric → the run's files that it comes from, the one that tells most first. Every other metric
# is in result.json alone.
_SOURCES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("throughput", "seconds", "operations", "user_bytes"), _PRINTED),
    **dict.fromkeys(
        ("wal_bytes", "rocksdb_written", "wa_lsm", "stall_share", "table_open_share",
         "cache_hit_share", "reads_asked", "lsm_bytes"), (*_PRINTED, *_LOG),
    ),
    **dict.fromkeys(
        ("flush_bytes", "compaction_bytes", "rocksdb_sum", "pending_compaction_bytes",
         "stalls_memtable", "stalls_level0", "stalls_pending"), _LOG,
    ),
    **dict.fromkeys(
        ("zoned_written", "conventional_written", "device_written", "device_read",
         "write_amplification", "zoned_share", "bandwidth_share", "device_busy_share"), _COUNTERS,
    ),
    "level_write_amplification": (*_COUNTERS, *_LOG, *_PRINTED),
    "cache_served_share": (*_COUNTERS, *_PRINTED),
    **dict.fromkeys(("gc_bytes", "gc_events"), _USAGE),
    **dict.fromkeys(
        ("small_files_bytes", "level_overhead", "pad_bytes", "media_bytes", "wa_pad", "wa_dev",
         "wa_total", "allocated_bytes", "live_bytes", "dead_bytes", "garbage_bytes",
         "space_amplification", "sa_host"), _LEDGER,
    ),
    **dict.fromkeys(("zones_full", "zones_active"), _ZONES),
    **dict.fromkeys(
        ("zone_resets", "zone_finishes", "zone_opens", "zone_closes", "appended"),
        ("series/zone_commands.csv", "raw/trace.jsonl"),
    ),
    **dict.fromkeys(
        ("cpu_seconds", "cpu_per_operation", "instructions", "instructions_per_operation"),
        _PROCESS,
    ),
    "utilisation": ("raw/cold.counters.json", *_COUNTERS),
    "max_utilisation": ("raw/up.usage.json",),
}  # fmt: skip


def patterns(key: str) -> tuple[str, ...]:
    """Return the files of a metric key, below the run's directory, as patterns without packing."""
    phase, _, name = key.rpartition(".")
    kind = _HISTOGRAM if "latency" in name else _SOURCES.get(name, ())
    return tuple(pattern.format(phase=phase) for pattern in kind)


def files(run: RunRecord, key: str) -> list[Path]:
    """Return the files of a run that a metric comes from, as they are stored; at least one."""
    found = []
    for pattern in patterns(key):
        if "*" in pattern:
            found += sorted(run.path.glob(pattern))
        elif (stored := packed.find(run.path / pattern)) is not None:
            found.append(stored)
    return found or [run.path / RESULT]


@lru_cache(maxsize=4096)  # resolving asks the kernel for each part, and runs have many links
def _relative(folder: Path, to: Path) -> str:
    return Path(os.path.relpath(folder.resolve(), to)).as_posix()


@dataclass(frozen=True, slots=True)
class Links:
    """Relative links from the report's folder to files of the campaign, percent-encoded."""

    folder: Path
    runs: Mapping[str, Sequence[RunRecord]]

    @classmethod
    def of(cls, campaign: CampaignData, folder: Path) -> Links:
        """Return the links of a campaign's report that is written to ``folder``."""
        runs: dict[str, list[RunRecord]] = {}
        for run in campaign.runs:
            runs.setdefault(run.name, []).append(run)
        return cls(folder.resolve(), runs)

    def to(self, path: Path) -> str:
        """Return the link to a file."""
        return quote(f"{_relative(path.parent, self.folder)}/{path.name}")

    def of_row(self, name: str, values: Mapping[str, str], source: str) -> str:
        """Return the link for a table's row about a run; empty where no such run is known.

        Args:
            name: the run.
            values: the row, by column; ``host`` tells runs of one name apart.
            source: the file below the run's directory, with columns in braces.
        """
        host = values.get("host")
        found = [run for run in self.runs.get(name, ()) if host in (None, run.host)]
        if not found:
            return ""
        if len(found) > 1:  # the table of runs has the host
            return "#runs"
        wanted = source
        for column, value in values.items():
            wanted = wanted.replace(f"{{{column}}}", value)
        return self.to(packed.find(found[0].path / wanted) or found[0].path / RESULT)
