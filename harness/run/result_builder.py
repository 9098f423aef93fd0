"""The facts of a run that belong to no single tenant, and its ``result.json``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import workloads
from harness.drive import precondition
from harness.errors import TimedOut
from harness.machine import code
from harness.machine.manifest import manifest, packages
from harness.observe import kernel_names, sampler
from harness.rules import RULES
from harness.run import judging, programs, run_metrics, zone_costs, zone_use
from harness.run.context import RunContext
from harness.run.ending import Ending
from harness.run.recording import Recording, with_media
from harness.run.tenant import RunningTenant
from harness.store import checksums, packed
from harness.store.ledger import Ledger
from harness.store.observed import NAME as OBSERVED
from harness.store.observed import ObservedRun, TenantFacts
from harness.store.result import Issue, Metric, Result, Severity, Status, empty
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec
from harness.tools.virtual_clock import patience


class ResultBuilder:
    """Collects facts about a run; ``result`` judges them."""

    def __init__(self, context: RunContext, spec: RunSpec, devices: Sequence[Device]) -> None:
        self._context = context
        self._spec = spec
        self._devices = devices
        self._manifest: dict[str, Any] | None = None
        self._started = context.host.now()
        self._began_real = context.host.realtime()
        self._log = context.host.kernel_log()
        self._code = code.runner()
        self._named: set[str] = set()  # names of the devices in the kernel log
        self.began = context.host.monotonic()
        self.tracing: dict[str, Any] = {}  # as in the manifest of the level
        self.findings: tuple[Issue, ...] = ()
        self.untraced: Reason | None = None
        self.together = TenantFacts()
        self.recording: Recording | None = None
        self._clock_jump = 0.0
        self._log_lines: int | None = None
        self._log_digest: str | None = None

    def seconds(self) -> float:
        """Return the duration of the run so far."""
        return self._context.host.monotonic() - self.began

    def seconds_left(self) -> float:
        """Return how many seconds the run may still take.

        Raises:
            TimedOut: its time is over.
        """
        left = self._spec.timeout_seconds * patience() - self.seconds()
        if left <= 0:
            raise TimedOut(
                f"the run did not end within {self._spec.timeout_seconds * patience():.0f} s",
                hint="raise timeout_seconds, or lower the number of operations",
                code="run-timeout",
            )
        return left

    def drain_kernel_log(self) -> None:
        """Collect the kernel's records before it overwrites them."""
        self._log.drain()

    def note_host(self, tenants: Sequence[RunningTenant] = (), *, hung: bool = False) -> None:
        """Read the manifest, but not if a process hangs: reading its device would never end."""
        host, paths = self._context.host, self._context.paths
        devices = [] if hung else [host.device(device.path) for device in self._devices]
        installed = packages(workloads.packages())
        self._note_names()
        self._manifest = manifest(host, devices, self._context.program, installed)
        for record, device in zip(self._manifest["devices"], devices, strict=True):
            record["preconditioned"] = precondition.summary(paths.state, device)
        keys = [device.identity.key for device in devices]
        files = programs.used(tenants, self._context.program)
        self._manifest["code"] = {"runner": self._code, "programs": code.programs(files)}
        self._manifest["remainder_bytes"] = (
            precondition.kept_bytes(host, paths, devices[0], keys) if devices else None
        )

    def result(self, ending: Ending, tenants: Sequence[RunningTenant], writer: RunWriter) -> Result:
        """Judge the run, and store the kernel log and the ledgers."""
        status = ending.status
        # Judging takes seconds on a slow host; the run's duration does not include it.
        frame = self._frame(ending)
        if self.recording is not None:
            played, (plain,) = self.recording.store(writer), tenants
            names = [facts.spec.name for facts in plain.facts]
            plain.snapshots = with_media(plain.snapshots, names, played)
        log = self._read_kernel_log()
        writer.write("raw/kernel.log", log or "")
        self._log_lines = None if log is None else log.count("\n")
        self._log_digest = None if log is None else checksums.of_text(log)
        self._clock_jump = self._context.host.realtime() - self._began_real - self.seconds()
        codes = tuple(info.code for rule in RULES for info in rule.issues)
        texts = _texts(writer.path / "series")
        observed = replace(
            self._observed(ending, codes, tenants),
            samples={name: text.count("\n") for name, text in texts.items()},
            digests={name: checksums.of_text(text) for name, text in texts.items()},
        )
        writer.write(OBSERVED, observed)
        ledgers = [tenant.ledger() for tenant in tenants]
        metrics: dict[str, Metric] = {}
        for tenant, ledger in zip(tenants, ledgers, strict=True):
            metrics |= run_metrics.of_tenant(
                tenant.spec.name, tenant.facts, ledger, alone=tenant.alone
            )
            if ledger is not None:
                writer.write(tenant.name("ledger.json"), ledger)
        if self._spec.tenants:
            metrics |= self._metrics_of_tenants(tenants)
        else:
            metrics |= self._metrics_of_plain_run(tenants[0], ledgers[0], writer)
        metrics["run.harness_memory_peak"] = Metric(_memory_peak(), "B")
        issues: tuple[Issue, ...] = ()
        if status is not Status.SKIPPED:
            judged = [tenant.judged(own) for tenant, own in zip(tenants, ledgers, strict=True)]
            issues = judging.issues(self._spec, log or "", observed, judged)
        if status is Status.OK and any(issue.severity is Severity.ERROR for issue in issues):
            status = Status.INVALID
        if self._manifest is None:
            self.note_host(hung=ending.hung is not None)
        return replace(
            frame,
            status=status,
            metrics=metrics,
            issues=issues,
            utilisation=None if self._spec.tenants else tenants[0].utilisation,
            phases=tuple(result for tenant in tenants for result in tenant.results),
            manifest={"host": self._manifest, "level": self._level_manifest(tenants)},
        )

    def unjudged(self, ending: Ending, writer: RunWriter) -> Result:
        """Return the result of a run whose files cannot be judged."""
        writer.write(OBSERVED, self._observed(ending, (), ()))
        return replace(
            self._frame(ending),
            issues=ending.issues,
            manifest={"host": self._manifest, "level": {}},
        )

    def _note_names(self) -> None:
        """Record the devices' names in the kernel log. Mapped ones exist while levels are up."""
        for device in self._devices:
            name = device.name
            self._named |= {name, *kernel_names.of_device(self._context.host.sysfs, name)}

    def _read_kernel_log(self) -> str | None:
        if not self._log.available:
            return None
        self._note_names()
        self._log.drain()
        self._log.close()
        return self._log.text(self._named)

    def _level_manifest(self, tenants: Sequence[RunningTenant]) -> dict[str, Any]:
        if self._spec.tenants:
            return self.tracing | {tenant.spec.name: tenant.manifest for tenant in tenants}
        return self.tracing | tenants[0].manifest

    def _metrics_of_plain_run(
        self, tenant: RunningTenant, ledger: Ledger | None, writer: RunWriter
    ) -> dict[str, Metric]:
        costs: dict[str, Metric] = {}
        if ledger is not None:
            costs = zone_costs.of_folder(
                writer.path,
                self._spec.device,
                ledger,
                metadata_zones=tenant.level.metadata_zones,
                snapshots=tenant.snapshots,
                facts=tenant.facts,
            )
        return costs | run_metrics.of_plain_run(self._spec, tenant.facts, tenant.utilisation)

    def _metrics_of_tenants(self, tenants: Sequence[RunningTenant]) -> dict[str, Metric]:
        own = self.together.harness_seconds
        metrics = {"run.harness_cpu_share": zone_use.cpu_share(own, [t.facts for t in tenants])}
        for tenant in tenants:
            metrics |= zone_use.metrics(
                tenant.measured[0].name,
                tenant.activity,
                tenant.denied_opens,
                tenant.utilisation,
                tenant.max_utilisation,
            )
        return metrics

    def _observed(
        self, ending: Ending, codes: tuple[str, ...], tenants: Sequence[RunningTenant]
    ) -> ObservedRun:
        """Return the inputs of the rules that no other raw file holds."""
        findings = [issue for tenant in tenants for issue in tenant.findings]
        return ObservedRun(
            ended=ending.status,
            reason=ending.reason,
            rules=codes,
            kernel_log_lines=self._log_lines,
            longest_gap=sampler.LONGEST,
            kernel_log_digest=self._log_digest,
            clock_jump=self._clock_jump,
            untraced=self.untraced,
            findings=(*findings, *self.findings),
            together=self.together if self._spec.tenants else None,
            tenants=(
                {tenant.spec.name: tenant.observed for tenant in tenants}
                if self._spec.tenants
                else None
            ),
        )

    def _frame(self, ending: Ending) -> Result:
        """Return the run's result without measurements; its end is now."""
        return empty(
            self._spec,
            ending.status,
            reason=ending.reason,
            started=self._started,
            finished=self._context.host.now(),
            seconds=round(self.seconds(), 3),
        )


def _texts(folder: Path) -> dict[str, str]:
    """Return the text of each series; the values of gauges are stored nowhere else."""
    return {file.name: packed.text(file) for file in sorted(folder.glob("*.csv"))}


def _memory_peak() -> int | None:
    """Return this process's peak RSS in bytes; getrusage would include the parent's before exec."""
    match = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else None
