"""Predicted bytes and time of a run.

The rates are orders of magnitude. They set the ETA and the timeouts, never a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from harness import zn540
from harness.plan.derive import Derived
from harness.plan.workload_models import Phase, Workload
from harness.store.spec import Bytes, DeviceKind, PhaseSpec, Prediction

MIB = 2**20

# Every user byte goes to the WAL once; flush and compaction rewrite it.
_WAL = 1.0

# A phase or run is killed after this multiple of its predicted time.
TIMEOUT_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Rates:
    """Assumed speed of a kind of device, with times in seconds.

    A write costs CPU time once, and again each time a flush or compaction rewrites the entry.
    ``setup`` covers format, mount, open, sync and unmount.
    """

    cold_bytes_per_second: float
    file_bytes_per_second: float
    write: float
    rewrite: float
    read: float
    scan: float
    setup: float
    phase: float


_BANDWIDTH = zn540.WRITE_BYTES_PER_SECOND
_HALF_BANDWIDTH = _BANDWIDTH // MIB // 2 * MIB

RATES = {
    # Two cores without KVM, measured on the NVMe rig: 1.3 GiB of cold data in 33 s; fillseq and
    # fillrandom of 116 B entries 42 and 72 us an entry, readrandom 268 us, readseq 13 us; file
    # writes are bound by the emulated CPU.
    DeviceKind.EMULATED: Rates(40 * MIB, 160 * MIB, 40e-6, 20e-6, 300e-6, 15e-6, 6.0, 2.0),
    # The slowest use of a modelled drive is on the timed rig: two machines on two cores, seconds of
    # the host.
    DeviceKind.MODELLED: Rates(40 * MIB, 25 * MIB, 40e-6, 20e-6, 300e-6, 15e-6, 15.0, 2.0),
    # ZN540: write bandwidth; half of it for a mix of flush and compaction; some 100 us
    # for a read that reaches the flash; the other times are of one thread of db_bench.
    DeviceKind.HARDWARE: Rates(_BANDWIDTH, _HALF_BANDWIDTH, 5e-6, 2e-6, 100e-6, 1e-6, 10.0, 2.0),
}


def write_amplification(phase: Phase) -> float:
    """Return the phase's assumed file bytes per user byte (0 for phases that only read)."""
    given = phase.assumed_write_amplification
    return phase.program.cost(phase.work).write_amplification if given is None else given


def user_bytes(spec: PhaseSpec) -> int:
    """Return the user bytes of a phase; 0 if the number of operations is not known in advance."""
    return (spec.operations or 0) * spec.user_bytes_per_operation


def file_bytes(phase: Phase, spec: PhaseSpec, workload: Workload, derived: Derived) -> float:
    """Return the bytes that a phase writes: the WAL uncompressed, everything else compressed."""
    shrunk = derived.entry_bytes / (workload.key_size + workload.value_size)
    beyond_wal = max(0.0, write_amplification(phase) - _WAL)
    return user_bytes(spec) * (_WAL + beyond_wal * shrunk)


def phase_seconds(phase: Phase, spec: PhaseSpec, written: float, rates: Rates) -> float:
    """Return the phase's predicted wall time in seconds."""
    duration = spec.flags.get("duration", 0)
    if spec.operations is None:
        return float(duration) + rates.phase
    rate = phase.program.cost(phase.work).rate
    busy = spec.operations / rate if rate else spec.operations * operation_seconds(phase, rates)
    return busy + written / rates.file_bytes_per_second + rates.phase


def operation_seconds(phase: Phase, rates: Rates) -> float:
    """Return the predicted CPU time of the average operation; flushes rewrite entries only."""
    cost = phase.program.cost(phase.work)
    rewrites = cost.entries * max(0.0, write_amplification(phase) - _WAL)
    writes = (cost.entries + cost.tombstones) * rates.write + rewrites * rates.rewrite
    return writes + cost.reads * rates.read + cost.scanned * rates.scan


def predict(
    workload: Workload,
    derived: Derived,
    specs: tuple[PhaseSpec, ...],
    kind: DeviceKind,
    prepared: Bytes,
) -> tuple[Prediction, tuple[PhaseSpec, ...], int]:
    """Return the run's prediction, its phases with their timeouts, and the run's timeout (s).

    ``prepared``: bytes that the level writes when it is brought up.
    """
    rates = RATES[kind]
    written = [
        file_bytes(phase, spec, workload, derived)
        for phase, spec in zip(workload.phases, specs, strict=True)
    ]
    times = [
        phase_seconds(phase, spec, bytes_, rates)
        for phase, spec, bytes_ in zip(workload.phases, specs, written, strict=True)
    ]
    once = prepared + derived.cold_bytes
    timed = tuple(
        replace(s, timeout_seconds=max(s.timeout_seconds, math.ceil(TIMEOUT_FACTOR * t)))
        for s, t in zip(specs, times, strict=True)
    )
    around = rates.setup + once / rates.cold_bytes_per_second
    prediction = Prediction(
        bytes_written=Bytes(round(once + sum(written))),
        live_bytes=Bytes(derived.cold_bytes + derived.database_bytes),
        seconds=round(around + sum(times), 1),
    )
    # At least 300 s outside the phases: formatting a large drive can first reset every zone.
    outside = max(300, math.ceil(TIMEOUT_FACTOR * around))
    return prediction, timed, outside + sum(s.timeout_seconds for s in timed)
