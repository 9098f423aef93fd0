"""docs/troubleshooting.md has every refusal of the code, verbatim, each with a cure."""

from __future__ import annotations

from pathlib import Path

from harness.docs import troubleshooting_page
from harness.docs.troubleshooting_page import Refusal

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
FOUND = troubleshooting_page.collect()


def test_the_page_matches_the_code() -> None:
    assert PAGE.read_text() == troubleshooting_page.page(FOUND), "run `make docs`"


def test_each_refusal_has_a_cure() -> None:
    assert [f"{one.file}: {one.message}" for one in FOUND if not one.cure] == []


def test_the_guards_refusals_are_on_the_page() -> None:
    """Counted by hand: the page must list every reason of the guard."""
    guard = {one.code for one in FOUND if troubleshooting_page.chapter_of(one.file) == "The device"}
    assert {
        "root",
        "mounted",
        "swap",
        "partitioned",
        "held",
        "read-only",
        "busy",
        "identity-changed",
        "foreign-signature",
        "not-empty",
        "not-blank",
        "conventional-zoned",
        "no-conventional",
    } <= guard


def module(folder: Path, text: str) -> list[Refusal]:
    (folder / "machine").mkdir()
    (folder / "machine" / "guard.py").write_text(text)
    (folder / "analysis.py").write_text('def f():\n    raise HostError("elsewhere")\n')
    return troubleshooting_page.collect(folder)


def test_messages_are_read_from_the_call(tmp_path: Path) -> None:
    found = module(
        tmp_path,
        "def f(device, error):\n"
        '    hint = "type " "this"\n'
        '    raise GuardRefused(f"{device} is | gone", hint=hint, code="gone")\n'
        '    yield Reason("bad", f"no {device}" + " <here>", f"look at {device}")\n'
        "    raise HostError(error.message, hint=error.hint)\n",
    )
    assert found == [
        Refusal("machine/guard.py", "gone", "… is | gone", "type this", "3"),
        Refusal("machine/guard.py", "bad", "no … <here>", "look at …", "3"),
    ]
    assert "| `gone` | 3 | … is \\| gone | type this |" in troubleshooting_page.page(found)
    assert "| `bad` | 3 | no … &lt;here> | look at … |" in troubleshooting_page.page(found)


def test_exit_codes_follow_the_class_of_the_error(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "phase.py").write_text(
        'def f(device):\n    return Reason("rate-fell", f"{device} slowed", "wait")\n'
    )
    found = module(
        tmp_path,
        "def f(device):\n"
        '    raise HostError("no program", hint="install it", code="program-missing")\n'
        '    raise GuardRefused(f"{device} is in use", hint="end it", code="busy")\n',
    )
    assert {one.code: one.ends for one in found} == {
        "program-missing": "2",
        "busy": "3",
        "rate-fell": "-",
    }
    assert "| `program-missing` | 2 | no program |" in troubleshooting_page.page(found)


def test_a_hint_that_a_method_makes_is_read_from_its_return(tmp_path: Path) -> None:
    found = module(
        tmp_path,
        "class C:\n"
        "    def _hint(self, device):\n"
        "        text = self.consent(device)\n"
        '        return f"type {text}"\n'
        "    def f(self, device):\n"
        '        return Reason("bad", f"{device} is bad", self._hint(device))\n'
        "    def g(self, device):\n"
        '        return Reason("worse", f"{device} is worse", self._other(device))\n',
    )
    assert [(one.code, one.hint) for one in found] == [("bad", "type …"), ("worse", "…")]


def test_constants_are_texts_and_lists_of_names_are_named(tmp_path: Path) -> None:
    found = module(
        tmp_path,
        'FIND = "find:"\n'
        "def f(name, known):\n"
        '    text = ""\n'
        '    raise UsageError(f"{text} is not {FIND}PCT", hint=f"for example {FIND}2%")\n'
        '    raise ConfigError(f"no {name}", hint=_inner(name) if name else load.nearest(name))\n',
    )
    assert [(one.message, one.hint) for one in found] == [
        ("… is not find:PCT", "for example find:2%"),
        ("no …", "the hint lists the names"),
    ]


def test_a_refusal_without_a_cure_is_noticed(tmp_path: Path) -> None:
    (found,) = module(tmp_path, 'def f():\n    raise GuardRefused("no", code="new")\n')
    assert (found.code, found.cure) == ("new", "")
