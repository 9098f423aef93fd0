"""The version of the numbers: which changes to published numbers a campaign contains.

Every run records :data:`NUMBERS`. A campaign with another version is not comparable, and the
examples under ``results/`` must have this one.

When a line is added under "Changes that affect numbers" of CHANGELOG.md: raise both constants, and
record the examples again.
"""

from __future__ import annotations

# TO BE RAISED to 1 when the examples are recorded again: those of today recorded no version, which
# counts as 0.
NUMBERS = 0
# Lines under that heading which NUMBERS covers. The test of the examples compares them.
CHANGES = 29
KEY = "numbers"  # of the manifest
