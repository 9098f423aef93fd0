"""The version of the numbers: which changes to published numbers a campaign contains.

Every run records :data:`NUMBERS`. A campaign with another version is not comparable, and the
examples under ``results/`` must have this one.

When a line is added under "Changes that affect numbers" of CHANGELOG.md: raise both constants, and
record the examples again.
"""

from __future__ import annotations

NUMBERS = 8
# Lines under that heading which NUMBERS covers. The test of the examples compares them.
CHANGES = 53
KEY = "numbers"  # of the manifest
