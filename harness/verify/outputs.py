"""Compares numbers that occur more than once in the raw output of a phase."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.rules.facts import PhaseFacts
from harness.store import packed
from harness.store.spec import Scalar
from harness.tools import rocksdb_log
from harness.workloads import program_of

# Options that RocksDB prints as given. It adjusts some others, such as triggers.
_OPTIONS = frozenset(
    {
        "write_buffer_size",
        "target_file_size_base",
        "max_bytes_for_level_base",
        "max_background_jobs",
        "level_compaction_dynamic_level_bytes",
        "use_direct_reads",
        "use_direct_io_for_flush_and_compaction",
    }
)
_LOG_HEAD = 65536  # bytes of a LOG that hold its options


def differences(folder: Path, facts: PhaseFacts, seed: int) -> Iterator[str]:
    """Yield one line per number of a phase that contradicts another one in its raw output."""
    if facts.lsm is not None:
        for text in facts.lsm.contradictions:
            yield f"raw/{facts.spec.name}.LOG: {text}"
    yield from program_of(facts.spec).contradictions(folder / "raw", facts, seed)
    yield from _options(folder, facts)


def _options(folder: Path, facts: PhaseFacts) -> Iterator[str]:
    """Compare the options with those that RocksDB prints, which it really uses."""
    file = folder / "raw" / f"{facts.spec.name}.LOG"
    if facts.lsm is None:
        return
    used = rocksdb_log.options(packed.text(file, _LOG_HEAD))
    for name in _OPTIONS & used.keys() & facts.spec.flags.keys():
        wanted = facts.spec.flags[name]
        if _number(wanted) != _number(used[name]):
            yield f"raw/{facts.spec.name}.LOG: has {name} {used[name]}, run.json has {wanted}"


def _number(value: Scalar) -> float | None:
    try:
        return float(value)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(str(value))
