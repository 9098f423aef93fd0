"""Trace a run of several tenants: one source, and a zone history per zoned namespace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import ZonelabError
from harness.observe.tracing.tracer import TIMELINE, TraceSource
from harness.observe.tracing.zone_history import History, TraceTotals, Transition, record
from harness.observe.zone_reports import Zone, as_csv
from harness.store.ledger import Trace

# Actions that make a zone active, and actions that end it.
_BEGINS = frozenset({"first-write", "open"})
_ENDS = frozenset({"last-write", "finish", "reset"})


class TenantTracer:
    """The tracing of all tenants; ``of`` returns the view of one tenant.

    Args:
        source: counts the commands.
        reports: functions that return the zones, by kernel name of the zoned namespace.
        metadata_zones: number of the level's metadata zones, by the same name; 0 if tenants share a
            namespace.
        began: start of the run, CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        source: TraceSource,
        *,
        reports: Mapping[str, Callable[[], Sequence[Zone]]],
        metadata_zones: Mapping[str, int],
        began: float,
    ) -> None:
        self._source = source
        self._began = began
        self._last = TraceTotals()
        self._seeds = {name: tuple(report()) for name, report in reports.items()}
        self._histories = {
            name: History(name, seed, metadata_zones.get(name, 0))
            for name, seed in self._seeds.items()
        }
        self.transitions: list[Transition] = []
        self.trouble: tuple[str, ...] = ()

    def of(self, device: str | None) -> TracedTenant:
        """Return the tracing of one zoned namespace; None is a tenant without one."""
        history = self._histories.get(device or "") or History("", ())
        return TracedTenant(self, history)

    def tick(self) -> None:
        """Do periodic work; called about once a second."""
        self._source.tick()

    def snapshot(self, history: History) -> Trace:
        """Return the counts so far; after a problem, all later snapshots carry it."""
        try:
            if not self.trouble:
                self._last = self._source.snapshot()
                self._take(self._last)
                self.trouble = self._last.problems
        except (ZonelabError, OSError) as error:
            self.trouble = (str(error),)
        self._last = replace(self._last, problems=self.trouble, transitions=())
        return record(self._source.names, self._last, history)

    def end(self, raw: Path, write: Callable[[str, str], None]) -> None:
        """Store zones, timeline and tables; ``raw`` gets the source's own output."""
        with cleaned(lambda: self._source.end(raw), although_hung=True):
            self.snapshot(History("", ()))
        for name, seed in self._seeds.items():
            write(f"raw/{name}.traced.zones.csv", as_csv(seed))
        if self.trouble:
            return
        write(TIMELINE, merged([history.timeline() for history in self._histories.values()]))
        for name, history in self._histories.items():
            write(f"raw/{name}.zones_traced.csv", history.table(self._last))

    def _take(self, totals: TraceTotals) -> None:
        self.transitions += totals.transitions
        for name, history in self._histories.items():
            own = tuple(item for item in totals.transitions if item.device == name)
            history.extend(replace(totals, transitions=own), self._began)


@dataclass(frozen=True, slots=True)
class TracedTenant:
    """One tenant's view: commands of all devices, and finishes of its own namespace."""

    tracer: TenantTracer
    history: History

    def tick(self) -> None:
        """Do periodic work."""
        self.tracer.tick()

    def snapshot(self) -> Trace:
        """Return the counts so far."""
        return self.tracer.snapshot(self.history)


@dataclass(frozen=True, slots=True)
class Activity:
    """Resets, finishes and zone-seconds of activity in a range of zones and a span of time."""

    resets: int
    finishes: int
    active_seconds: float


def merged(timelines: Sequence[str]) -> str:
    """Merge timelines in the order of time."""
    header = timelines[0].partition("\n")[0] if timelines else ""
    rows = [row for timeline in timelines for row in timeline.splitlines()[1:]]
    rows.sort(key=lambda row: float(row.partition(",")[0]))
    return "".join(f"{row}\n" for row in [header, *rows])


def activity(
    transitions: Sequence[Transition],
    device: str,
    zones: range,
    active: Collection[int],
    span: tuple[float, float],
    *,
    seen: float,
) -> Activity:
    """Add up the transitions of a tenant's zones.

    Kernel workers submit a file system's commands, so only the zone shows the tenant.

    Args:
        transitions: in the order of completion.
        device: kernel name of the namespace.
        zones: zones of the tenant.
        active: zones that were active at the time ``seen``.
        span: start and end, CLOCK_MONOTONIC.
        seen: a time before the span; programs open their databases in between.
    """
    began, ended = span
    since = {zone: began for zone in active if zone in zones}
    seconds, resets, finishes = 0.0, 0, 0
    for item in transitions:
        if item.error or item.device != device or not seen <= item.time <= ended:
            continue
        time, inside = max(item.time, began), item.time >= began
        if item.action == "reset-all":
            seconds += sum(time - start for start in since.values())
            since.clear()
            resets += inside
        elif item.zone is not None and item.zone in zones:
            if item.action in _BEGINS:
                since.setdefault(item.zone, time)
            elif item.action in _ENDS and item.zone in since:
                seconds += time - since.pop(item.zone)
            resets += inside and item.action == "reset"
            finishes += inside and item.action == "finish"
    seconds += sum(ended - start for start in since.values())
    return Activity(resets, finishes, seconds)
