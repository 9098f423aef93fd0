"""docs/troubleshooting.md has every refusal of the code, in its words, each with a cure."""

from __future__ import annotations

from pathlib import Path

from harness.rules import refusals
from harness.rules.refusals import Refusal

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
FOUND = refusals.collect()


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == refusals.page(FOUND), "run `make docs`"


def test_each_refusal_has_a_cure() -> None:
    assert [f"{one.file}: {one.message}" for one in FOUND if not one.cure] == []


def test_what_the_guard_may_say_is_there() -> None:
    """Counted by hand in harness/run/guard.py: a reason that the reader misses would be no row."""
    guard = {one.code for one in FOUND if one.file == "run/guard.py"}
    assert {
        "root", "mounted", "swap", "partitioned", "held", "read-only", "busy", "identity-changed",
        "foreign-signature", "not-empty", "not-blank", "conventional-zoned", "no-conventional",
    } <= guard  # fmt: skip


def module(folder: Path, text: str) -> list[Refusal]:
    (folder / "run").mkdir()
    (folder / "run" / "guard.py").write_text(text)
    (folder / "analysis.py").write_text('def f():\n    raise HostError("elsewhere")\n')
    return refusals.collect(folder)


def test_words_are_read_where_they_stand(tmp_path: Path) -> None:
    found = module(
        tmp_path,
        "def f(device, error):\n"
        '    hint = "type " "this"\n'
        '    raise GuardRefused(f"{device} is | gone", hint=hint, code="gone")\n'
        '    yield Reason("bad", f"no {device}" + " <here>", f"look at {device}")\n'
        "    raise HostError(error.message, hint=error.hint)\n",
    )
    assert found == [
        Refusal("run/guard.py", "gone", "… is | gone", "type this"),
        Refusal("run/guard.py", "bad", "no … <here>", "look at …"),
    ]
    assert "| `gone` | … is \\| gone | type this |" in refusals.page(found)
    assert "| `bad` | no … &lt;here> | look at … |" in refusals.page(found)


def test_a_refusal_without_a_cure_is_noticed(tmp_path: Path) -> None:
    (found,) = module(tmp_path, 'def f():\n    raise GuardRefused("no", code="new")\n')
    assert (found.code, found.cure) == ("new", "")
