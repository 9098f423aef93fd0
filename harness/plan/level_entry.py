"""A level in a study or mix, with its options."""

from __future__ import annotations

from harness.plan.fields import Flag, Model, Name


class LevelEntry(Model):
    """A level of a study or tenant, with the options of its module.

    A study can contain a level several times with different options. Each then needs a ``variant``
    and is called ``<name>-<variant>`` in cells, tables, claims and ``--levels``.
    """

    name: Name
    variant: Name | None = None
    options: dict[str, Flag] = {}

    @property
    def label(self) -> str:
        """Name of the level within the study."""
        return self.name if self.variant is None else f"{self.name}-{self.variant}"
