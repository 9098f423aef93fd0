"""Validity rules: what a reader must know before trusting a run.

A rule is a function decorated with ``rule`` in any module of this folder.
"""

from __future__ import annotations

from harness.discovery import modules
from harness.rules.facts import RunFacts
from harness.rules.rule import Rule
from harness.store.result import Issue


def discover() -> tuple[Rule, ...]:
    """Return the rules of all modules: modules by name, rules in the order of their source."""
    return tuple(
        member
        for module in modules(__name__, __path__)
        for member in vars(module).values()
        if isinstance(member, Rule) and member.module == module.__name__
    )


def judge(run: RunFacts) -> tuple[Issue, ...]:
    """Return the issues of all rules, in the rules' order."""
    return tuple(issue for rule in RULES for issue in rule(run))


RULES = discover()
