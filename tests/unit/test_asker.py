"""A level's programs are sampled while db_bench works: one at a time, with a time limit."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import ToolFailed
from harness.levels.level import Question
from harness.run.asker import Asker
from tests.fixtures.waiting import until

COST = "t,seconds,read_bytes"


def number(stdout: str) -> tuple[int, ...]:
    if not stdout.strip().isdigit():
        raise ToolFailed(f"no number: {stdout.strip()}")
    return (int(stdout),)


def question(name: str, script: str) -> Question:
    return Question(name, (sys.executable, "-S", "-c", script), ("value",), number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("series", "raw"):
        (tmp_path / name).mkdir()
    return tmp_path


def asker(folder: Path, *questions: Question, clock: Callable[[], float] = time.monotonic) -> Asker:
    return Asker(questions, folder, clock=clock, began=clock())


def rows(folder: Path, name: str) -> list[str]:
    file = folder / "series" / f"{name}.csv"
    return file.read_text().splitlines() if file.exists() else []


def test_answers_come_in_turn(folder: Path) -> None:
    with asker(folder, question("one", "print(1)"), question("two", "print(2)")) as asking:

        def answered(name: str, count: int) -> bool:
            asking.tick()
            return len(rows(folder, name)) > count

        until(lambda: answered("two", 2), "the rows")
    one, two = rows(folder, "one"), rows(folder, "two")
    assert one[0] == two[0] == f"{COST},value"
    assert {row.split(",")[3] for row in one[1:]} == {"1"}
    assert {row.split(",")[3] for row in two[1:]} == {"2"}
    assert len(one) - len(two) in (0, 1)
    times = [float(row.split(",")[0]) for row in (one[1], two[1], one[2], two[2])]
    assert times == sorted(times)


def test_nothing_is_asked_while_an_answer_is_outstanding_and_the_end_does_not_wait(
    folder: Path,
) -> None:
    pids = folder / "pids"
    slow = f"import os,time; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    begin = time.monotonic()
    with asker(folder, question("slow", slow)) as asking:
        asking.tick()
        until(lambda: pids.exists() and pids.read_text().endswith("\n"), "the programs start")
        for _ in range(5):
            asking.tick()
    assert time.monotonic() - begin < 30
    (pid,) = pids.read_text().split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), signal.SIG_DFL)
    assert rows(folder, "slow") == []  # no answer, so no sample


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('busy')", "busy"),
        ("print('x')", "no number: x"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
)
def test_a_failed_answer_is_empty_and_keeps_the_error(
    folder: Path, script: str, words: str
) -> None:
    with asker(folder, question("bad", script)) as asking:
        asking.tick()
        until(lambda: (asking.tick(), len(rows(folder, "bad")) > 1)[1], "the rows")
    assert rows(folder, "bad")[1].endswith(",")
    assert words in (folder / "raw" / "bad.failed").read_text()


def test_a_level_without_questions_leaves_no_files(folder: Path) -> None:
    with asker(folder) as asking:
        asking.tick()
    assert list((folder / "series").iterdir()) == []
