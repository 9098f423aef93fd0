"""Use of O_DIRECT, probed on this machine's own file system, with and without the flag."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.rules import judge
from harness.rules.facts import RunFacts
from harness.tools import direct_io
from harness.tools.direct_io import DirectIo
from harness.tools.kernel import Kernel


def test_direct_is_direct(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "try", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system takes no O_DIRECT")
    found = direct_io.probe(tmp_path, Kernel())
    if found.facts.get("dio_mem_align", 0) == 0:
        pytest.skip("this file system promises no direct I/O")
    assert found.writes is not False
    assert found.reads is not False
    assert not (tmp_path / direct_io.NAME).exists()


def test_buffered_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that accepts the flag and buffers looks the same as one that never saw it."""
    monkeypatch.setattr(os, "O_DIRECT", 0)
    found = direct_io.probe(tmp_path, Kernel())
    assert found.writes is False
    assert found.reads is not True
    assert found.facts["cached_pages_after_write"] == found.facts["pages"]


def test_a_refused_open_is_no_direct_io(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    found = direct_io.probe(tmp_path, Kernel())
    assert (found.reads, found.writes) == (False, False)
    assert found.source == "open with O_DIRECT: Invalid argument"


def test_without_the_kernels_count_writes_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_io, "_cached", lambda _: 0)  # in tmpfs all pages stay cached
    assert direct_io.probe(tmp_path, Kernel(tmp_path / "nowhere")).writes is None


def dirtied_by_others(monkeypatch: pytest.MonkeyPatch, pages: list[int]) -> list[float]:
    """Let each try of a direct write dirty the next of ``pages``; return the pauses."""
    counts = iter([count for each in pages for count in (0, each)])
    monkeypatch.setattr(direct_io, "_dirtied", lambda _: next(counts))
    monkeypatch.setattr(direct_io, "_cached", lambda _: 0)
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


@pytest.mark.parametrize(
    ("pages", "direct", "pauses"),
    [
        ([31], True, 0),
        ([512, 700, 512, 31], True, 3),  # another program writes for a while
        ([512] * 9 + [31], True, 9),
        ([32] * 10, False, 10),
        ([512] * 9 + [64], False, 10),  # a quiet moment shows that the file itself is buffered
        ([127] * 10, False, 10),
        ([128] * 10, None, 10),  # it never stops, so nobody knows
    ],
)
def test_other_programs_dirty_pages_too(
    pages: list[int],
    direct: bool | None,
    pauses: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited = dirtied_by_others(monkeypatch, pages)
    handle = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        fewest = direct_io._write(handle, Kernel())
    finally:
        os.close(handle)
    assert fewest == min(pages)
    assert direct_io._writes(fewest, 0) is direct
    assert len(waited) == pauses


def test_pages_that_stay_cached_are_buffered() -> None:
    assert direct_io._writes(None, 32) is False
    assert direct_io._writes(0, 32) is False
    assert direct_io._writes(0, 31) is True
    assert direct_io._writes(None, 0) is None


def asked(good: RunFacts, found: DirectIo | None, **flags: bool) -> set[str]:
    phase = good.phases[0]
    phase = replace(phase, spec=replace(phase.spec, flags={**phase.spec.flags, **flags}))
    issues = judge(replace(good, phases=(phase,), direct_io=found))
    return {issue.code for issue in issues if issue.code.startswith("direct-")}


def test_a_direct_io_request_without_effect_is_an_issue(good: RunFacts) -> None:
    buffered = DirectIo(False, False, "a probe")
    both = {"use_direct_reads": True, "use_direct_io_for_flush_and_compaction": True}
    assert asked(good, buffered, **both) == {"direct-reads-buffered", "direct-writes-buffered"}
    assert asked(good, buffered, use_direct_reads=True) == {"direct-reads-buffered"}
    assert asked(good, buffered) == set()
    assert asked(good, DirectIo(True, None, "a probe"), **both) == set()
    assert asked(good, None, **both) == set()
