"""zoneprobe: timed commands to bare zones, by the history of each zone. It uses no database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from harness import zn540
from harness.errors import ConfigError
from harness.levels.level import LevelUp
from harness.metrics.catalogue import CATALOGUE
from harness.quantities import format_size
from harness.store import packed
from harness.store.result import Metric
from harness.store.spec import Device, DeviceKind, PhaseSpec, Scalar
from harness.tools import zoneprobe
from harness.tools.histogram import SAMPLES_ABOVE
from harness.tools.zoneprobe import LABEL_ZONES, Treatment
from harness.workloads import zoneprobe_contradictions
from harness.workloads.load_program import (
    EndedPhase,
    Invocation,
    NativeProgram,
    Parsed,
    ProgramReport,
    Rows,
)
from harness.workloads.planning import (
    BarePhase,
    BareWork,
    Bounds,
    DerivedPhase,
    SizeQuantity,
    refuse_flags,
)

_NS_PER_US = 1000
_P99 = 0.99

# Largest first write that no driver splits into several commands.
_LARGEST_WRITE = 128 * 2**10
_LARGEST_FILL = 16 * 2**20
# The program prints all timed writes as numbers on one line, of which up to 4 MiB are read.
_MOST_WRITES = 300_000

# A finish of a ZN540: seconds for an empty zone, and the change for each percent written.
_FINISH = (zn540.FINISH_AT_ZERO_MS / 1000, -zn540.FINISH_MS_PER_PERCENT / 1000)
# Seconds of a ZN540's longest reset. An emulator's reset only changes a flag.
_RESET = round(zn540.RESET_MS[-1][1], 1) / 1000
_COMMAND = {
    DeviceKind.EMULATED: 1e-3,
    DeviceKind.HARDWARE: _RESET,
    DeviceKind.MODELLED: _RESET,  # in seconds of the model
}

Occupancy = Literal["block", "all-but-block"] | Annotated[float, Bounds(ge=0, le=100)]
PositiveCount = Annotated[int, Bounds(ge=1, lt=2**31)]


@dataclass(frozen=True, kw_only=True)
class ZoneProbe:
    """Treatments of zones by zoneprobe; ``zoneprobe run --help`` explains names and limits.

    An occupancy is a percentage of a zone's capacity, ``block`` or ``all-but-block``.
    ``occupancies`` apply to zones that are reset, ``finish_occupancies`` to zones that are finished
    and then reset. One more treatment, ``fresh``, only writes. Each treatment is repeated
    ``repeats`` times. After each, ``first_writes`` writes of ``write_size`` are timed.
    """

    occupancies: Annotated[tuple[Occupancy, ...], Bounds(min_length=1)]
    finish_occupancies: tuple[Occupancy, ...] = ()
    repeats: PositiveCount
    first_writes: PositiveCount
    write_size: SizeQuantity
    fill_size: SizeQuantity

    def check(self) -> None:
        """Refuse values that do not fit together (ConfigError)."""
        for name in ("occupancies", "finish_occupancies"):
            words = [_word(occupancy) for occupancy in getattr(self, name)]
            if len(set(words)) != len(words):
                raise ConfigError(f"{name} must differ: {', '.join(words)}")
        for name, most in (("write_size", _LARGEST_WRITE), ("fill_size", _LARGEST_FILL)):
            if not 0 < getattr(self, name) <= most:
                raise ConfigError(f"{name} must be above 0 and at most {format_size(most)}")
        writes = self.treatments * self.repeats * self.first_writes
        if writes > _MOST_WRITES:
            raise ConfigError(
                f"{writes} first writes are too many to be reported one by one",
                hint=f"at most {_MOST_WRITES}: fewer repeats or first_writes",
            )

    @property
    def treatments(self) -> int:
        """Number of treatments, including ``fresh``."""
        return 1 + len(self.occupancies) + len(self.finish_occupancies)


class Zoneprobe(NativeProgram):
    """Our own program that times writes, resets and finishes of zones."""

    name: ClassVar[str] = zoneprobe.PROGRAM
    field: ClassVar[str] = "zones"
    work: ClassVar[Any] = ZoneProbe
    reserved: ClassVar[frozenset[str]] = frozenset({"device", "seed", "report_file", "ledger_file"})
    uses_database: ClassVar[bool] = False
    file_schema: ClassVar[str] = "probe-workload"
    factors: ClassVar[tuple[str, ...]] = ("repeats", "first_writes", "write_size", "fill_size")

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> ProgramReport:  # noqa: ARG002
        """Return a file on the host's own disk, with a line for each command."""
        return ProgramReport(csv, {"report_file": str(csv)})

    def rows(self, report: Path) -> Rows:
        """Return a row for each cycle; ToolFailed if it is not a report."""
        return zoneprobe.cycles(packed.text(report))

    def columns(self, report: Path) -> str:  # noqa: ARG002
        """Return the header of the series after its time."""
        return zoneprobe.SERIES

    def operations_in(self, line: str) -> int:
        """Return the cycles of a line of the report."""
        return zoneprobe.operations_in(line)

    def contradictions(self, raw: Path, phase: EndedPhase, seed: int) -> Iterator[str]:  # noqa: ARG002
        """Hold the report against the summary."""
        yield from zoneprobe_contradictions.of_report(raw, phase)

    def argv(self, call: Invocation) -> list[str]:
        """Return the argument list.

        Raises:
            ConfigError: the workload sets a reserved flag, or the level has files.
        """
        spec, up = call.spec, call.up
        refuse_flags(spec.name, spec.flags, self.reserved)
        if up.db is not None or up.fs_uri is not None:
            raise ConfigError(
                f"phase {spec.name} needs bare zones",
                hint="levels: [raw-device]",
                code="level-and-workload",
            )
        own: dict[str, Scalar] = {
            "device": up.devices[0].path,
            "seed": call.seed,
            "ledger_file": str(up.records[0]),
            **call.report.flags,
        }
        return [
            str(call.program),
            "run",
            *(f"--{name}={value}" for name, value in (own | {**spec.flags}).items()),
        ]

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:  # noqa: ARG002
        """Read a phase's output. An unfinished phase has no summary and raises nothing.

        Raises:
            ToolFailed: the output is damaged.
        """
        summary = zoneprobe.parse(stdout)
        if summary is None:
            return Parsed(None, 0)
        return Parsed(
            summary=summary,
            summaries=1,
            user_bytes=summary.bytes_written,
            more={
                f"{treatment.name}.{name}": Metric(value, CATALOGUE[name].unit)
                for treatment in summary.treatments
                for name, value in _metrics(treatment).items()
            },
        )

    def plan_bare(self, work: ZoneProbe, device: Device) -> BareWork:
        """Size a probe for a device.

        Raises:
            ConfigError: the device has too few zones, or the first writes do not fit into a zone.
        """
        _check_device(work, device)
        capacity, block = device.zone_capacity or 0, device.logical_block_size
        reset = [_occupied(each, capacity, block) for each in work.occupancies]
        finished = [_occupied(each, capacity, block) for each in work.finish_occupancies]
        cycles = work.treatments * work.repeats
        writes = cycles * work.first_writes
        written = work.repeats * (sum(reset) + sum(finished)) + writes * work.write_size
        seconds = 2 * cycles * _COMMAND[device.kind]
        if device.kind is not DeviceKind.EMULATED:
            shares = [100 * size / capacity for size in finished if size]  # an empty zone: at once
            seconds += work.repeats * sum(_FINISH[0] + _FINISH[1] * share for share in shares)
        flags: dict[str, Scalar] = {
            "occupancies": ",".join(map(_word, work.occupancies)),
            "finish_occupancies": ",".join(map(_word, work.finish_occupancies)),
            **{name: getattr(work, name) for name in self.factors},
        }
        fills = "repeats x (fills + treatments x first_writes x write_size)"
        numbers = {
            "cycles": (cycles, f"{work.treatments} treatments x {work.repeats} repeats"),
            "written_bytes": (written, fills),
            "finishes": (work.repeats * len(finished), "repeats x finish_occupancies"),
        }
        derived = DerivedPhase("zones", flags, cycles, 0)
        return BareWork(numbers, (BarePhase("probe", derived, written, writes, seconds),))


def _word(occupancy: str | float) -> str:
    """Return an occupancy as an argument of zoneprobe: ``block``, ``6.25``, ``100``."""
    return occupancy if isinstance(occupancy, str) else f"{occupancy:g}"


def _occupied(occupancy: str | float, capacity: int, block: int) -> int:
    """Return bytes in whole blocks, like ``Occupancy::Bytes`` of harness/native/zoneprobe."""
    if isinstance(occupancy, str):
        return block if occupancy == "block" else capacity - block
    return int(occupancy / 100 * capacity) // block * block


def _check_device(probe: ZoneProbe, device: Device) -> None:
    zones, capacity = device.zones or 0, device.zone_capacity or 0
    if zones - LABEL_ZONES <= probe.repeats:
        raise ConfigError(
            f"{probe.repeats} repeats need {probe.repeats + 1 + LABEL_ZONES} zones, "
            f"{device.path} has {zones}",
            hint="lower repeats, or use a namespace with more zones",
            code="too-few-zones",
        )
    for name in ("write_size", "fill_size"):
        if getattr(probe, name) % device.logical_block_size:
            raise ConfigError(
                f"{name} is not a multiple of the {device.logical_block_size} B blocks of "
                f"{device.path}",
                hint="write 4KiB, which suits every device",
                code="bad-field",
            )
    if probe.first_writes * probe.write_size + device.logical_block_size > capacity:
        raise ConfigError(
            f"{probe.first_writes} first writes of {format_size(probe.write_size)} do not fit into "
            f"a zone of {format_size(capacity)}",
            hint="lower first_writes or write_size",
            code="does-not-fit",
        )


def _metrics(one: Treatment) -> dict[str, float | None]:
    """Return the metrics of a treatment by catalogue name, in microseconds."""
    first = [cycle[0] for cycle in one.writes]
    # In the second half of the writes after a reset, transient effects are over.
    later = [latency for cycle in one.writes for latency in cycle[(len(cycle) + 1) // 2 :]]
    found = _of("first_write_latency", first) | {"later_write_latency_p50": quantile(later, 0.5)}
    if one.resets:
        found |= _of("reset_latency", one.resets)
    if one.finish:
        found |= _of("finish_latency", one.finishes)
    return found


def _of(name: str, samples: Sequence[int]) -> dict[str, float | None]:
    micros = [sample / _NS_PER_US for sample in samples]
    return {
        f"{name}_mean": sum(micros) / len(micros) if micros else None,
        f"{name}_p50": quantile(samples, 0.5),
        f"{name}_p99": quantile(samples, _P99, least_above=SAMPLES_ABOVE),
        f"{name}_max": max(micros, default=None),
    }


def quantile(samples: Sequence[int], share: float, *, least_above: int = 0) -> float | None:
    """Return a quantile in microseconds of samples in nanoseconds.

    Linear between the two nearest samples (Hyndman and Fan's type 7). None without samples, or
    when fewer than ``least_above`` lie above it.
    """
    if not samples or len(samples) * (1 - share) < least_above:
        return None
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return (ordered[low] + (ordered[high] - ordered[low]) * (place - low)) / _NS_PER_US
