"""Traces a run of several tenants: one source, a history for each zoned namespace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import ZonelabError
from harness.observe.tracer import TIMELINE, Source
from harness.observe.zone_trace import History, Totals, Transition, record
from harness.observe.zones import Zone, as_csv
from harness.store.ledger import Trace

# When a zone becomes active, and when it is no longer.
_BEGINS = frozenset({"first-write", "open"})
_ENDS = frozenset({"last-write", "finish", "reset"})


class TenantTracer:
    """The tracing of all tenants; ``of`` is what one of them sees.

    Args:
        source: what counts.
        reports: return the zones, by kernel name of each zoned namespace.
        metadata_zones: of the levels, by the same; 0 where a namespace is divided.
        began: the run's beginning, CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        source: Source,
        *,
        reports: Mapping[str, Callable[[], Sequence[Zone]]],
        metadata_zones: Mapping[str, int],
        began: float,
    ) -> None:
        self._source = source
        self._began = began
        self._last = Totals()
        self._seeds = {name: tuple(report()) for name, report in reports.items()}
        self._histories = {
            name: History(name, seed, metadata_zones.get(name, 0))
            for name, seed in self._seeds.items()
        }
        self.transitions: list[Transition] = []
        self.trouble: tuple[str, ...] = ()

    def of(self, device: str | None) -> TracedTenant:
        """Return what is traced of one zoned namespace, null: of a tenant that has none."""
        history = self._histories.get(device or "") or History("", ())
        return TracedTenant(self, history)

    def tick(self) -> None:
        """Let the source work, about once a second."""
        self._source.tick()

    def snapshot(self, history: History) -> Trace:
        """Return the counts; once something went wrong, all later ones say so."""
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
        """Store what was traced; ``raw`` gets the source's own output."""
        try:
            self.snapshot(History("", ()))
        finally:
            self._source.end(raw)
        for name, seed in self._seeds.items():
            write(f"raw/{name}.traced.zones.csv", as_csv(seed))
        if self.trouble:
            return
        write(TIMELINE, merged([one.timeline() for one in self._histories.values()]))
        for name, history in self._histories.items():
            write(f"raw/{name}.zones_traced.csv", history.table(self._last))

    def _take(self, totals: Totals) -> None:
        self.transitions += totals.transitions
        for name, history in self._histories.items():
            own = tuple(one for one in totals.transitions if one.device == name)
            history.extend(replace(totals, transitions=own), self._began)


@dataclass(frozen=True, slots=True)
class TracedTenant:
    """What one tenant's barriers ask; it counts every command, and its namespace's finishes."""

    tracer: TenantTracer
    history: History

    def tick(self) -> None:
        """Let the source work."""
        self.tracer.tick()

    def snapshot(self) -> Trace:
        """Return the counts so far."""
        return self.tracer.snapshot(self.history)


@dataclass(frozen=True, slots=True)
class Activity:
    """What was done to a range of zones in a span of time."""

    resets: int
    finishes: int
    active_seconds: float


def merged(timelines: Sequence[str]) -> str:
    """Return several timelines as one, in the order of time."""
    header = timelines[0].partition("\n")[0] if timelines else ""
    rows = [row for one in timelines for row in one.splitlines()[1:]]
    rows.sort(key=lambda row: float(row.partition(",")[0]))
    return "".join(f"{row}\n" for row in [header, *rows])


def activity(
    transitions: Sequence[Transition],
    device: str,
    zones: range,
    active: Collection[int],
    span: tuple[float, float],
) -> Activity:
    """Add up what happened to a tenant's zones; kernel workers did it, so zones tell whose it was.

    Args:
        transitions: in the order of completion.
        device: kernel name of the namespace.
        zones: those of the tenant.
        active: zones that were active when the span began.
        span: its beginning and end, CLOCK_MONOTONIC.
    """
    began, ended = span
    since = {zone: began for zone in active if zone in zones}
    seconds, resets, finishes = 0.0, 0, 0
    for one in transitions:
        if one.error or one.device != device or not began <= one.time <= ended:
            continue
        if one.action == "reset-all":
            seconds += sum(one.time - start for start in since.values())
            since.clear()
            resets += 1
        elif one.zone is not None and one.zone in zones:
            if one.action in _BEGINS:
                since.setdefault(one.zone, one.time)
            elif one.action in _ENDS and one.zone in since:
                seconds += one.time - since.pop(one.zone)
            resets += one.action == "reset"
            finishes += one.action == "finish"
    seconds += sum(ended - start for start in since.values())
    return Activity(resets, finishes, seconds)
