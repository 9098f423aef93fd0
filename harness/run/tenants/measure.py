"""What is measured while the tenants' levels are up: fills one by one, then all at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from harness.nulls import difference
from harness.observe import rocksdb_build, sampler, system, zone_states
from harness.observe.gauges import Reader
from harness.observe.sampler import Sampler, Series
from harness.observe.tenant_trace import TenantTracer, activity
from harness.observe.zones import ACTIVE
from harness.rules.facts import TenantFacts
from harness.run import phases
from harness.run.bench import Bench
from harness.run.claim import label
from harness.run.measure import Infeasible, direct_io_record, failure
from harness.run.phases import Barrier, CpuUse, Done
from harness.run.progress import Share
from harness.run.record import Record
from harness.run.tenants import units
from harness.run.tenants.record import TenantRecord
from harness.run.tenants.window import Outcome, Runner, Window
from harness.run.utilisation import utilisation
from harness.store.codec import SCHEMA_VERSION, encode
from harness.store.spec import Device, PhaseRole, PhaseSpec, Reason, RunSpec
from harness.tools import kvmix
from harness.tools.kernel import Kernel

TENANTS = "raw/tenants.json"
# blk_types.h: BLK_STS_ZONE_OPEN_RESOURCE and BLK_STS_ZONE_ACTIVE_RESOURCE, one less since a status
# in front of them was removed with Linux 6.10.
_DENIED, _DENIED_BEFORE, _DENIED_CHANGED = (14, 15), (15, 16), (6, 10)


class Measurement:
    """Takes the tenants through their phases; everything it finds goes into their records.

    Args:
        bench: what all runs share.
        spec: the run.
        record: what is known about the run as a whole.
        tenants: those of this run, their levels up.
        tracer: null where nothing is traced.
        zoned: the zoned namespaces in use.
    """

    def __init__(
        self,
        bench: Bench,
        spec: RunSpec,
        record: Record,
        tenants: Sequence[TenantRecord],
        *,
        tracer: TenantTracer | None,
        zoned: Sequence[Device],
    ) -> None:
        self._bench = bench
        self._spec = spec
        self._record = record
        self._tenants = tuple(tenants)
        self._tracer = tracer
        self._zoned = tuple(zoned)
        self._last: dict[str, Barrier] = {}
        self._systemd = units.booted()
        self._outcome: Outcome | None = None
        self._spread = 0.0
        self.harness_seconds: float | None = None  # CPU of ours in the window
        self._sampler = Sampler(
            tenants[0].stage.writer.path / "series",
            self._series(),
            clock=bench.host.monotonic,
            began=record.began,
        )

    def run(self) -> None:
        """Measure; errors as for a run of one, but who dies in the window only makes it invalid."""
        try:
            for one in self._tenants:
                self._begin(one)
            for one in self._tenants:
                self._fill_cold(one)
            for one in self._tenants:
                self._fill(one)
            for one in self._tenants:
                self._note_utilisation(one)
            self._together()
        finally:
            self._sampler.close()

    def facts(self) -> TenantFacts:
        """Return how they were together."""
        died = self._outcome.died if self._outcome else ""
        return TenantFacts(died=died, units=self._systemd, spread=self._spread)

    # --- before the window ------------------------------------------------------------------

    def _begin(self, one: TenantRecord) -> None:
        stage = one.stage
        one.direct_io = one.level.direct_io(stage.up)
        fresh = phases.barrier(self._bench, stage, f"{one.spec.name}.up", 0)
        one.points.append(fresh.point)
        if fresh.usage.free_bytes is not None:
            one.maximum = min(fresh.usage.free_bytes / stage.device.capacity, 1.0)
        one.info |= {
            "name": one.spec.level,
            "options": dict(one.spec.options),
            "device": Path(one.spec.device.path).name,
            "active": one.spec.active,
            "mount_options": stage.up.mount_options,
            "gc_source": fresh.usage.gc_source,
            "program": str(stage.up.program or self._bench.program),
            "facts": dict(stage.up.facts),
            "direct_io": direct_io_record(one.phases, one.direct_io),
            "fresh": encode(fresh.usage),
        }
        if stage.up.program not in (None, self._bench.program):
            one.info["rocksdb_build"] = rocksdb_build.of_program(stage.up.program)

    def _fill_cold(self, one: TenantRecord) -> None:
        cold, capacity = one.spec.cold, one.stage.device.capacity
        if cold is not None and cold.bytes > 0 and one.spec.stack == one.spec.name:
            if one.maximum is not None and cold.target_utilisation > one.maximum:
                raise Infeasible(
                    Reason(
                        "utilisation-infeasible",
                        f"{one.spec.level} offers {one.maximum:.1%} of {capacity} B to tenant "
                        f"{one.spec.name}, less than the {cold.target_utilisation:.1%} wanted",
                        "choose a lower target utilisation",
                    )
                )
            self._bench.progress.phase(f"cold fill: {one.spec.name}")
            one.cold = one.level.fill_cold(
                one.stage.up,
                cold.bytes,
                self._spec.seed + one.spec.seed,
                lambda done, wanted: self._tick(lambda: done / wanted if wanted else None),
            )
        self._barrier(one, "cold")
        one.points.append(self._last[one.spec.name].point)

    def _fill(self, one: TenantRecord) -> None:
        fills = [phase for phase in one.phases if phase.role is PhaseRole.FILL]
        for index, phase in enumerate(fills):
            self._bench.progress.phase(phase.name)
            facts, result, after = phases.run_phase(
                self._bench,
                one.stage,
                phase,
                self._seed(one, phase),
                key_seed=self._spec.seed + one.spec.seed,
                first=index == 0,
                before=self._last[one.spec.name],
                cold=one.cold,
                seconds_left=self._record.seconds_left(),
                tick=self._tick,
            )
            self._last[one.spec.name] = after
            one.facts.append(facts)
            one.results.append(result)
            one.points.append(after.point)
            self._bench.stop.check()
            if not facts.ended_well:
                raise failure(facts)

    def _note_utilisation(self, one: TenantRecord) -> None:
        if one.spec.cold is None:
            return
        snapshots = [
            other.points[-1].snapshot
            for other in self._tenants
            if other.spec.stack == one.spec.stack
        ]
        point = one.points[-1]
        one.utilisation = utilisation(
            self._bench,
            one.stage,
            one.spec.cold,
            cold=one.cold,
            database=sum(snapshot.database_bytes for snapshot in snapshots),
            allocated=sum(point.allocated) if point.allocated else None,
            maximum=one.maximum,
            besides=[device.identity.key for device in self._zoned],
        )

    # --- the window -------------------------------------------------------------------------

    def _together(self) -> None:
        self._bench.progress.phase("barrier")
        for one in self._tenants:
            self._barrier(one, "start")
            # What a level did while others filled belongs to its own fill.
            one.points[-1] = self._last[one.spec.name].point
        active = {Path(d.path).name: self._active(d) for d in self._zoned}
        runners = [self._runner(one) for one in self._tenants]
        self._bench.progress.phase("mix" if len(runners) > 1 else runners[0].ready.spec.name)
        before = self._bench.cgroups.harness_seconds()
        try:
            window = Window(self._bench.host, runners, lambda share: self._tick(lambda: share))
            outcome = window.run()
        finally:
            for runner in runners:
                if runner.gate is not None:
                    runner.gate.unlink(missing_ok=True)
        self._outcome = outcome
        self.harness_seconds = difference(before, self._bench.cgroups.harness_seconds())
        for one, runner in zip(self._tenants, runners, strict=True):
            if runner.ended is not None:
                self._conclude(one, runner)
        self._note_activity(outcome, active)
        self._spread = _spread(runners)
        self._write(outcome, runners)
        self._bench.stop.check()

    def _runner(self, one: TenantRecord) -> Runner:
        phase = next(p for p in one.phases if p.role is PhaseRole.MEASURED)
        first = not any(p.role is PhaseRole.FILL for p in one.phases)
        ready = phases.prepare(
            self._bench,
            one.stage,
            phase,
            self._seed(one, phase),
            key_seed=self._spec.seed + one.spec.seed,
            first=first,
        )
        gate = None
        argv = list(ready.argv)
        if phase.program == kvmix.PROGRAM:
            gate = self._bench.paths.runtime / f"{self._spec.run}.{one.spec.name}.go"
            gate.unlink(missing_ok=True)
            argv.append(f"--wait_for={gate}")
        variables = [f"{name}={value}" for name, value in one.stage.up.environment.items()]
        # As in run_program: the program dies with us, and its variables are set behind the unit.
        argv = ["setpriv", "--pdeathsig", "KILL", "--", "env", *variables, *argv]
        unit = units.name(label(self._spec), one.spec.name)
        devices = [d for d in (one.stage.device, one.stage.conventional) if d is not None]
        used = devices if one.level.uses_zoned else devices[1:]
        wrapped = units.wrap(argv, unit, one.spec.limits, used, systemd=self._systemd)
        one.info["unit"] = unit if self._systemd else ""
        return Runner(one.spec, ready, wrapped, gate)

    def _conclude(self, one: TenantRecord, runner: Runner) -> None:
        assert runner.ended is not None  # noqa: S101 - the caller looked
        host, name = self._bench.host, runner.ready.spec.name
        released = runner.released if runner.released is not None else host.monotonic()
        offset = released - self._record.began
        done = Done(
            ended=runner.ended,
            cpu=CpuUse(runner.cpu_seconds, None, None),
            started=runner.started,
            offset=offset,
            shift=host.monotonic() - self._record.began - host.realtime(),
        )
        before = self._last[one.spec.name]
        after = phases.barrier(self._bench, one.stage, name, one.cold)
        facts, result = phases.conclude(one.stage, runner.ready, done, before=before, after=after)
        one.facts.append(facts)
        one.results.append(result)
        one.points.append(after.point)
        one.stopped = runner.stopped
        one.info |= {
            "released": round(offset, 6),
            "ended": round((runner.ended_at or released) - self._record.began, 6),
        }

    def _note_activity(self, outcome: Outcome, active: dict[str, frozenset[int]]) -> None:
        """Tell tenants apart by the zones that are theirs."""
        if self._tracer is None or self._tracer.trouble:
            return
        denied = _DENIED if Kernel().version() >= _DENIED_CHANGED else _DENIED_BEFORE
        for one in self._tenants:
            device = Path(one.spec.device.path).name
            if not one.alone or not one.level.uses_zoned or device not in active:
                continue
            zones = one.spec.zones
            first, count = (zones.first, zones.count) if zones else (0, one.stage.device.zones or 0)
            one.activity = activity(
                self._tracer.transitions,
                device,
                range(first, first + count),
                active[device],
                (outcome.began, outcome.ended),
            )
            seen = one.facts[-1].traced
            if zones is None and seen is not None:
                one.denied = sum(
                    n for (name, _, status), n in seen.commands.items()
                    if name == device and status in denied
                )  # fmt: skip

    def _active(self, device: Device) -> frozenset[int]:
        report = self._bench.host.zones(device.path)
        return frozenset(number for number, zone in enumerate(report) if zone.condition in ACTIVE)

    def _write(self, outcome: Outcome, runners: Sequence[Runner]) -> None:
        """Store the window and where each tenant lived, for the analysis."""
        began = self._record.began
        content = {
            "schema_version": SCHEMA_VERSION,
            "began": round(outcome.began - began, 6),
            "ended": round(outcome.ended - began, 6),
            "tenants": [
                {
                    "name": one.spec.name,
                    "level": one.spec.level,
                    "phase": runner.ready.spec.name.partition(".")[2],
                    "weight": one.spec.weight,
                    "device": _device_name(one),
                    "zones": [one.spec.zones.first, one.spec.zones.count]
                    if one.spec.zones
                    else None,
                    "start_offset": one.spec.start_offset,
                    "unit": one.info.get("unit", ""),
                }
                for one, runner in zip(self._tenants, runners, strict=True)
            ],
        }
        writer = self._tenants[0].stage.writer
        writer.write(TENANTS, json.dumps(content, indent=1) + "\n")

    # --- helpers ----------------------------------------------------------------------------

    def _barrier(self, one: TenantRecord, point: str) -> None:
        name = f"{one.spec.name}.{point}"
        self._last[one.spec.name] = phases.barrier(self._bench, one.stage, name, one.cold)

    def _seed(self, one: TenantRecord, phase: PhaseSpec) -> int:
        """Return the seed of a phase: the tenant's own, whoever else is there."""
        return phases.seed(self._spec.seed + one.spec.seed, one.phases, phase)

    def _tick(self, share: Share) -> None:
        self._record.seconds_left()
        self._sampler.tick()
        if self._tracer is not None:
            self._tracer.tick()
        self._bench.progress.tick(share)

    def _series(self) -> list[Series]:
        """Return what is sampled: all devices once, levels and zones by tenant."""
        names = [name for one in self._tenants for name in one.stage.names]
        names += [Path(device.path).name for device in self._zoned]
        block = self._bench.host.sysfs.block
        found = [sampler.disks(list(dict.fromkeys(names)), block)]
        machine = Reader(system.gauges(self._bench.host.proc, None))
        found.append(Series("system", machine.columns, machine.read, machine.close))
        for one in self._tenants:
            if one.spec.stack != one.spec.name:
                continue
            gauges = Reader(one.level.gauges(one.stage.up))
            found.append(
                Series(f"{one.spec.name}.level", gauges.columns, gauges.read, gauges.close)
            )
            if one.level.uses_zoned:
                states = self._bench.host.zone_states(one.stage.device)
                found.append(
                    Series(f"{one.spec.name}.zones", zone_states.COLUMNS, states.read, states.close)
                )
        return found


def _device_name(one: TenantRecord) -> str:
    """Return the kernel's name of the namespace, or of the conventional device of a baseline."""
    companion = one.stage.conventional
    device = one.spec.device if one.level.uses_zoned or companion is None else companion
    return Path(device.path).name


def _spread(runners: Sequence[Runner]) -> float:
    """Return how far apart those ended that last to the end."""
    last = max(one.tenant.start_offset + one.tenant.duration for one in runners)
    ends = [
        one.ended_at
        for one in runners
        if one.ended_at is not None
        and one.tenant.start_offset + one.tenant.duration == last
        and not one.stopped
    ]
    return max(ends) - min(ends) if ends else 0.0
