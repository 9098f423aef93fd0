"""What a run will write and how long it will take: rough, stated, shown before anything is lost.

The rates are orders of magnitude: they drive the ETA and the timeouts, never a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from harness.plan.derive import Derived
from harness.plan.models import SCANS, WRITES, Mix, Phase, Workload
from harness.store.spec import Bytes, DeviceKind, PhaseSpec, Prediction

MIB = 2**20

# File bytes (WAL + flush + compaction) per user byte. Measured with db_bench 7.8 on tmpfs at the
# default study's sizes, rounded up: fillseq moves files without rewriting them.
WRITE_AMPLIFICATION = {
    "fillseq": 2.0,
    "fillrandom": 3.0,
    "filluniquerandom": 5.0,
    "overwrite": 5.0,
    "updaterandom": 5.0,
}
_WAL = 1.0

# A phase or run may take this many times its prediction before it is killed.
TIMEOUT_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Rates:
    """Assumed speed of a device kind, times in seconds.

    A write costs CPU when it is made and again each time a flush or compaction rewrites its entry,
    whatever its size. ``setup`` covers format, mount, opening, sync, unmount.
    """

    cold_bytes_per_second: float
    file_bytes_per_second: float
    write: float
    rewrite: float
    read: float
    scan: float
    setup: float
    phase: float


RATES = {
    # Two cores without KVM, measured on the default rig: 1.3 GiB of cold data in 33 s; fillseq and
    # fillrandom of 116 B entries 42 and 72 us an entry, readrandom 268 us, readseq 13 us; file
    # writes are bound by the emulated CPU.
    DeviceKind.EMULATED: Rates(40 * MIB, 160 * MIB, 40e-6, 20e-6, 300e-6, 15e-6, 6.0, 2.0),
    # ZN540: 1,155 MiB/s write bandwidth; half of it for a mix of flush and compaction; some 100 us
    # for a read that reaches the flash; the rest as one thread of db_bench does it.
    DeviceKind.HARDWARE: Rates(1155 * MIB, 577 * MIB, 5e-6, 2e-6, 100e-6, 1e-6, 10.0, 2.0),
}


def write_amplification(phase: Phase) -> float:
    """Return the phase's assumed file bytes per user byte (0 for phases that only read)."""
    if phase.assumed_write_amplification is not None or phase.mix is None:
        return phase.assumed_write_amplification or WRITE_AMPLIFICATION.get(
            phase.benchmark or "", 0.0
        )
    mix = phase.mix
    like = "fillrandom" if mix.only_inserts else "overwrite"
    return WRITE_AMPLIFICATION[like] if mix.payload(1, 1) > 0 else 0.0


def user_bytes(spec: PhaseSpec) -> int:
    """Return U of a phase; 0 where the number of operations is not known beforehand."""
    return (spec.operations or 0) * spec.user_bytes_per_operation


def file_bytes(phase: Phase, spec: PhaseSpec, workload: Workload, derived: Derived) -> float:
    """Return what the phase writes: the WAL as it is, flushed and compacted data compressed."""
    shrunk = derived.entry_bytes / (workload.key_size + workload.value_size)
    beyond_wal = max(0.0, write_amplification(phase) - _WAL)
    return user_bytes(spec) * (_WAL + beyond_wal * shrunk)


def phase_seconds(phase: Phase, spec: PhaseSpec, written: float, rates: Rates) -> float:
    """Return the phase's predicted wall time in seconds."""
    duration = spec.flags.get("duration", 0)
    if spec.operations is None:
        return float(duration) + rates.phase
    rate = phase.mix.rate if phase.mix else None
    busy = spec.operations / rate if rate else spec.operations * operation_seconds(phase, rates)
    return busy + written / rates.file_bytes_per_second + rates.phase


def operation_seconds(phase: Phase, rates: Rates) -> float:
    """Return the predicted CPU time of one operation of a phase."""
    if phase.mix is not None:
        return _mix_seconds(phase.mix, write_amplification(phase), rates)
    if phase.benchmark in WRITES:
        update = rates.read if phase.benchmark == "updaterandom" else 0.0
        return update + rates.write + rates.rewrite * max(0.0, write_amplification(phase) - _WAL)
    return rates.scan if phase.benchmark in SCANS else rates.read


def _mix_seconds(mix: Mix, amplification: float, rates: Rates) -> float:
    """Return the mean of its operations; a range query is a read and scans its keys."""
    entries = mix.insert + mix.update
    tombstones = mix.delete + mix.range_delete
    writes = (entries + tombstones) * rates.write
    writes += entries * rates.rewrite * max(0.0, amplification - _WAL)
    reads = mix.query * rates.read + mix.scan * (rates.read + mix.range_keys * rates.scan)
    return (writes + reads) / mix.total


def predict(
    workload: Workload, derived: Derived, specs: tuple[PhaseSpec, ...], kind: DeviceKind
) -> tuple[Prediction, tuple[PhaseSpec, ...], int]:
    """Return the run's prediction, its phases with their timeouts, and the run's timeout (s)."""
    rates = RATES[kind]
    written = [
        file_bytes(phase, spec, workload, derived)
        for phase, spec in zip(workload.phases, specs, strict=True)
    ]
    times = [
        phase_seconds(phase, spec, bytes_, rates)
        for phase, spec, bytes_ in zip(workload.phases, specs, written, strict=True)
    ]
    cold_seconds = derived.cold_bytes / rates.cold_bytes_per_second
    timed = tuple(
        replace(s, timeout_seconds=max(s.timeout_seconds, math.ceil(TIMEOUT_FACTOR * t)))
        for s, t in zip(specs, times, strict=True)
    )
    around = rates.setup + cold_seconds
    prediction = Prediction(
        bytes_written=Bytes(round(derived.cold_bytes + sum(written))),
        live_bytes=Bytes(derived.cold_bytes + derived.database_bytes),
        seconds=round(around + sum(times), 1),
    )
    # The floor of 300 s around the phases: formatting a large drive may reset every zone first.
    outside = max(300, math.ceil(TIMEOUT_FACTOR * around))
    return prediction, timed, outside + sum(s.timeout_seconds for s in timed)
