"""``progress.json``: the progress of a campaign, replaced every few seconds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import ConfigError
from harness.run.heartbeat import Heartbeat
from harness.store.codec import SCHEMA_VERSION, encode
from harness.store.files import load_record, write_atomic
from harness.store.spec import RunSpec

ReadShare = Callable[[], float | None]  # returns the share of a phase that is done, or null

# Seconds between writes: a reader can wait, and each write costs CPU time on this machine.
_WRITE_SECONDS = 5.0
# Before this share of a phase, opening the database and filling memtables hide its rate.
_TELLING_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """``progress.json`` (docs/architecture.md). ``phase_done`` is a share of the phase, 0 to 1.

    ``heartbeat`` is null until the runner begins.
    """

    campaign: str
    state: str
    runs_total: int
    runs_done: int
    run: str
    phase: str
    phase_done: float
    eta_seconds: float | None
    counts: Mapping[str, int]
    updated: str
    line: str
    heartbeat: Heartbeat | None = None
    schema_version: int = field(default=SCHEMA_VERSION)


def load(path: Path) -> ProgressRecord:
    """Read a progress file; ConfigError when missing, damaged or of another version."""
    return load_record(ProgressRecord, path)


def write(path: Path, record: ProgressRecord) -> None:
    """Replace a progress file."""
    # Without indentation json uses its C encoder.
    write_atomic(path, json.dumps(encode(record)) + "\n", durable=False)


def announcement(path: Path, campaign: str, state: str, message: str) -> ProgressRecord:
    """Return a record for a state outside of runs (starting, failed, aborted)."""
    try:
        known = load(path)
    except ConfigError:
        known = ProgressRecord(campaign, state, 0, 0, "", "", 0.0, None, {}, "", "")
    line = f"{campaign}: {state}, {known.runs_done}/{known.runs_total} runs: {message}"
    return replace(known, state=state, line=line, eta_seconds=None)


class ProgressPublisher:
    """Publishes the record of a campaign.

    ``done`` has the statuses of complete runs, ``pending`` the runs to come, in order.
    """

    def __init__(
        self,
        publish: Callable[[ProgressRecord], None],
        campaign: str,
        done: Sequence[str],
        pending: Sequence[RunSpec],
        *,
        clock: Callable[[], float],
    ) -> None:
        self._publish = publish
        self._campaign = campaign
        self._counts = Counter(done)
        self._pending = list(pending)
        self._total = len(done) + len(pending)
        self._clock = clock
        self._began = clock()
        self._run_began = self._began
        self._last = float("-inf")
        self._predicted_done = 0.0
        self._spent = 0.0
        self._run: RunSpec | None = None
        self._phase = ""
        self._phase_began = self._began
        self._share = 0.0

    def begin(self, run: RunSpec) -> None:
        """Note that a run starts."""
        self._run, self._run_began = run, self._clock()
        self.phase("guard")

    def phase(self, name: str) -> None:
        """Note that a step of the run starts."""
        self._phase, self._share, self._phase_began = name, 0.0, self._clock()
        self.tick(force=True)

    def tick(self, share: ReadShare | None = None, *, force: bool = False) -> None:
        """Write the file with the share of the phase that is done, every few seconds."""
        if not force and self._clock() - self._last < _WRITE_SECONDS:
            return
        done = share() if share else None
        if done is not None:
            self._share = min(max(done, 0.0), 1.0)
        self._write("running")

    def end(self, status: str) -> None:
        """Note that a run is complete."""
        if self._run is not None:
            self._predicted_done += self._run.predicted.seconds
            self._spent += self._clock() - self._run_began
            self._pending.remove(self._run)
        self._counts[status] += 1
        self._run = None
        self._write("running")

    def finish(self) -> None:
        """Note that the campaign is done."""
        self._write("done")

    def eta(self) -> float:
        """Return the remaining seconds: predictions, corrected by the duration of finished runs.

        The active run takes at least the time that its phase still needs at its present rate.
        """
        pace = self._spent / self._predicted_done if self._predicted_done else 1.0
        left = sum(run.predicted.seconds for run in self._pending) * pace
        if self._run is not None:
            whole = self._run.predicted.seconds * pace
            spent = self._clock() - self._run_began
            left += max(whole - spent, self._rest_of_phase()) - whole
        return left

    def _rest_of_phase(self) -> float:
        if self._share < _TELLING_SHARE:
            return 0.0
        return (self._clock() - self._phase_began) * (1 - self._share) / self._share

    def line(self, state: str) -> str:
        """Return the progress as one line."""
        done = sum(self._counts.values())
        counts = ", ".join(f"{n} {status}" for status, n in sorted(self._counts.items()))
        text = f"{self._campaign}: {state}, {done}/{self._total} runs"
        text += f" ({counts})" if counts else ""
        if self._run is not None:
            text += f", {self._run.run} {self._phase} {self._share:.0%}"
        return text + (f", about {human_seconds(self.eta())} left" if state == "running" else "")

    def _write(self, state: str) -> None:
        self._last = self._clock()
        record = ProgressRecord(
            campaign=self._campaign,
            state=state,
            runs_total=self._total,
            runs_done=sum(self._counts.values()),
            run=self._run.run if self._run else "",
            phase=self._phase,
            phase_done=round(self._share, 4),
            eta_seconds=round(self.eta(), 1) if state == "running" else None,
            counts=dict(self._counts),
            updated="",  # at the time of writing
            line=self.line(state),
        )
        self._publish(record)


def human_seconds(seconds: float) -> str:
    """Return ``95`` as ``1m35s``."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
