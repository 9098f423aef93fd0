"""The life of a run: guard → claim → levels up → measurement → levels down → release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harness.cleanup import cleaned
from harness.drive import health
from harness.errors import HostError, ZonelabError
from harness.levels import budget
from harness.levels.level import LevelContext, LevelUp
from harness.machine import queue_times
from harness.machine.claim import run_label
from harness.machine.hold import quiet
from harness.machine.schedulers import schedulers
from harness.observe.tracing.tracer import Tracer
from harness.run.context import RunContext, RunningLevel, ToolReads
from harness.run.ending import Ending, and_then, of_error, reason_of
from harness.run.measure import Measurement
from harness.run.phase import Infeasible
from harness.run.recording import recording, stopped
from harness.run.result_builder import ResultBuilder
from harness.run.slices import mapped
from harness.run.tenant import RunningTenant, has_devices_alone, tenants_of
from harness.run.tracing import traced
from harness.store.result import Result, Status
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import Reason, RunSpec
from harness.workloads import PROGRAMS
from harness.workloads.db_bench import DbBench


class Life:
    """Executes one run and writes its directory.

    A plain run is a run of one tenant without a name.

    Raises:
        GuardRefused: a planned device is missing.
    """

    def __init__(self, context: RunContext, spec: RunSpec, writer: RunWriter) -> None:
        find, levels = context.host.find, context.levels
        needed = any(levels[name].needs_conventional for name in spec.levels)
        self._spec = spec = replace(
            spec,
            device=find(spec.device),
            conventional=find(spec.conventional) if needed and spec.conventional else None,
            tenants=tuple(replace(one, device=find(one.device)) for one in spec.tenants),
        )
        tenants = tenants_of(spec)
        zoned = {
            one.device.identity.key: one.device for one in tenants if levels[one.level].uses_zoned
        }
        self._zoned = tuple(zoned.values())
        used = [*self._zoned, *([spec.conventional] if spec.conventional else [])]
        self._context = context
        self._writer = writer
        self._claim = context.claim(spec, used)
        self._record = ResultBuilder(context, spec, used)
        self._tenants = [
            RunningTenant(
                spec,
                one,
                levels[one.level],
                one.device,
                spec.conventional if levels[one.level].needs_conventional else None,
                alone=has_devices_alone(one, tenants),
            )
            for one in tenants
        ]
        self._joined: list[RunningTenant] = []
        self._tools = ToolReads()

    def execute(self) -> Status:
        """Run, judge, and commit the directory.

        Raises:
            GuardRefused: a device must not be used; nothing is written to it afterwards.
            HostError: the disk that holds results is full.
            Interrupted: the run was taken down and stored as ``aborted``.
            Hung: a process cannot be killed; the run is stored, and its claim is kept.
        """
        ending = self._attempt()
        with self._context.stop.deferred():
            result = self._result(ending)
            self._writer.write("run.json", self._spec)
            self._writer.write("result.json", result)
            self._writer.commit()
        ending.raise_last()
        return result.status

    def _result(self, ending: Ending) -> Result:
        """Judge the run. If that fails, the run keeps its first error as the reason."""
        for message in ending.later:
            self._context.say(f"{self._spec.run}: clean-up: {message}")
        self._record.findings += ending.issues
        # A plain run is judged even if its level never came up.
        tenants = self._joined if self._spec.tenants else self._tenants
        try:
            result = self._record.result(ending, tenants, self._writer)
        except Exception as error:
            ending = and_then(ending, error)
            result = self._record.unjudged(ending, self._writer)
        ending.store(self._writer)
        return result

    def _attempt(self) -> Ending:
        """Return how the run ended. All levels are down again by then."""
        if self._spec.infeasible is not None:
            return Ending(Status.SKIPPED, self._spec.infeasible)
        reason = self._probe()
        if reason is not None:
            return Ending(Status.SKIPPED, reason)
        self._claim.require_allowed()
        self._require_fit()
        with self._claim.exclusively():
            return self._claimed()

    def _claimed(self) -> Ending:
        """Hold the devices, if the guard allows them, and return how the run ended."""
        devices, c = self._claim.devices, self._context
        try:
            campaign = c.paths.campaign(self._spec.campaign)
            with full_disk_is_clear(self._writer.path):
                self._record.recording = recording(c.host, campaign, self._spec)
            with (
                full_disk_is_clear(self._writer.path),
                stopped(self._record.recording),
                self._claim.held(),
                schedulers(c.host, c.paths, c.stop, devices, self._spec.scheduler),
            ):
                queue_times.lengthen(c.host.sysfs, devices)
                self._live()
        except Exception as error:
            return of_error(error)
        return Ending(Status.OK)

    # --- before anything is claimed -----------------------------------------------------------

    def _probe(self) -> Reason | None:
        """Return why the run is impossible here. Slices are probed later, once they are mapped."""
        try:
            budget.check(self._spec.tenants, self._context.levels)
        except ZonelabError as error:
            return reason_of(error)
        for tenant in self._tenants:
            reason = tenant.level.probe_kernel(tenant.device)
            if reason is None and not _is_sliced(tenant):
                reason = tenant.level.probe(tenant.device, self._spec.conventional)
            reason = reason or self._probe_programs(tenant)
            if reason is not None:
                return reason
        return None

    def _probe_programs(self, tenant: RunningTenant) -> Reason | None:
        program, level = self._context.program, tenant.level
        names = {phase.program for phase in tenant.phases}
        if not tenant.spec.name:
            names.add(DbBench.name)  # a level may need it for cold data
        for name in sorted(names):
            try:
                reason = level.probe_program(PROGRAMS[name].path(program), name)
            except HostError as error:
                return reason_of(error)
            if reason is not None:
                return reason
        return None

    def _require_fit(self) -> None:
        """Check the drives: an unhealthy one ends the campaign, a warm one gets time to cool."""
        for device in self._claim.devices:
            name = device.name
            health.require_healthy(self._context.host, name)
            health.wait_cool(self._context.host, name, self._context.say)

    # --- while devices are claimed ------------------------------------------------------------

    def _live(self) -> None:
        record, spec = self._record, self._spec
        with ExitStack() as stack:
            tracing = traced(
                self._context,
                spec,
                self._claim.devices,
                zoned=self._zoned,
                record=record,
                writer=self._writer,
            )
            tracer = None if spec.tenants else stack.enter_context(tracing)
            self._claim.clear()
            self._map_slices(stack)
            ups: dict[str, LevelUp] = {}
            for tenant in self._tenants:
                if tenant.spec.stack not in ups:
                    ups[tenant.spec.stack] = stack.enter_context(self._level_up(tenant))
            self._claim.formatted()
            stack.enter_context(quiet(self._bare_devices(ups)))
            if spec.tenants:
                # Tracing starts after formatting, which resets all zones of a namespace at once.
                # The tracer would count such a reset for all tenants together. It first reads the
                # state of the zones.
                tracer = stack.enter_context(tracing)
            for tenant in self._tenants:
                self._join(tenant, ups[tenant.spec.stack], tracer)
            record.note_host(self._joined)  # the host's settings are now as in the measurement
            Measurement(
                self._context,
                spec,
                record,
                self._joined,
                zoned=self._zoned,
                tracer=tracer,
            ).run()
            self._context.progress.phase("level check")
            for tenant in self._joined:
                if tenant.owns_file_system:
                    tenant.findings = tenant.level.check(tenant.running.up)

    def _bare_devices(self, ups: Mapping[str, LevelUp]) -> list[str]:
        """Return the devices that are measured without a level on them."""
        stacks = {one.spec.stack for one in self._tenants if not one.level.takes_database}
        return [device.path for stack in sorted(stacks) for device in ups[stack].devices]

    def _map_slices(self, stack: ExitStack) -> None:
        """Map the slices of each file system, and probe them.

        In a run of one tenant alone, that tenant may share another one's file system in the mix.
        The slices then belong to the tenant that runs.
        """
        if any(_is_sliced(tenant) for tenant in self._tenants):
            self._claim.check()
        owners: dict[str, RunningTenant] = {}
        for tenant in self._tenants:
            owner = owners.setdefault(tenant.spec.stack, tenant)
            if owner is tenant:
                tenant.device, tenant.conventional = stack.enter_context(
                    mapped(self._context.host, tenant.spec, tenant.conventional)
                )
                reason = None
                if _is_sliced(tenant):
                    reason = tenant.level.probe(tenant.device, tenant.conventional)
                if reason is not None:
                    raise Infeasible(reason)
            tenant.device, tenant.conventional = owner.device, owner.conventional

    @contextmanager
    def _level_up(self, tenant: RunningTenant) -> Iterator[LevelUp]:
        """Bring up the level of a tenant, and take it down again whatever happens."""
        context, level = self._context, tenant.level
        context.progress.phase(tenant.title("level up"))
        folder = f"{self._spec.run}.{tenant.spec.name}" if tenant.spec.name else self._spec.run
        scratch = context.paths.runtime / folder
        scratch.mkdir(parents=True, exist_ok=True)
        used = [tenant.device] if level.uses_zoned else []
        used += [tenant.conventional] if tenant.conventional else []
        try:
            up = level.up(
                LevelContext(
                    device=tenant.device,
                    conventional=tenant.conventional,
                    options=tenant.spec.options,
                    scratch=scratch,
                    label=run_label(self._spec),
                    check_devices=lambda: self._claim.check(used),
                    program=context.program,
                    kernel_log=context.host.kernel_log,
                    progress=lambda done, wanted: context.progress.tick(lambda: done / wanted),
                )
            )
        except BaseException:
            with suppress(OSError):  # the next start removes a folder that is not empty
                scratch.rmdir()
            raise
        with cleaned(lambda: self._level_down(tenant, up, scratch)):
            yield up

    def _level_down(self, tenant: RunningTenant, up: LevelUp, scratch: Path) -> None:
        """Keep the level's records, and take it down."""

        def down() -> None:
            tenant.level.down(up)
            scratch.rmdir()

        with self._context.stop.deferred(), cleaned(down):
            self._context.progress.phase("level down")
            for record in up.records:
                self._writer.pack(record, f"raw/{tenant.name(record.name)}.xz")

    def _join(self, tenant: RunningTenant, up: LevelUp, tracer: Tracer | None) -> None:
        """Give a tenant its database on a file system that is up."""
        if up.db is not None and not tenant.owns_file_system:
            db = up.db.parent / f"db-{tenant.spec.name}"
            db.mkdir()
            up = replace(up, db=db, database_log=db / "LOG")
        zoned = tenant.spec.device.name if tenant.level.uses_zoned else None
        tenant.running = RunningLevel(
            tenant.level,
            up,
            tenant.device,
            tenant.conventional,
            self._writer,
            self._record.began,
            tracer.of(zoned) if tracer else None,
            self._tools,
            recording=self._record.recording,
        )
        self._joined.append(tenant)


def _is_sliced(tenant: RunningTenant) -> bool:
    return tenant.spec.zones is not None or tenant.spec.conventional is not None
