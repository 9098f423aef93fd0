"""Validity rules: what a reader must know before trusting a run."""

from __future__ import annotations

from harness.rules.devices import DIRECT_FLAGS
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.registry import RULES, judge

__all__ = ["DIRECT_FLAGS", "RULES", "PhaseFacts", "RunFacts", "judge"]
