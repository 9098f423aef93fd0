"""The drives of a run without a kernel device: each run creates them; no guard is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.cleanup import cleaned
from harness.errors import GuardRefused
from harness.observe.native_drive import NativeDrive
from harness.store.spec import Device


class NativeClaim:
    """The claim on drives that the runner makes for one run, with the interface of ``DeviceClaim``.

    The lock of the drives' folder keeps other runs away, and the lock of the contents other
    programs.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self._drives = [NativeDrive(device) for device in devices]

    def require_allowed(self) -> None:
        """Raise GuardRefused if a drive's path holds a file that is not a modelled drive."""
        for drive in self._drives:
            if not drive.is_ours():
                raise GuardRefused(
                    f"{drive.contents} is not a modelled drive; nothing was written",
                    hint="move the file away",
                    code="foreign-signature",
                )

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Check the files again."""
        self.require_allowed()
        yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Begin with new drives, and remove them after the block."""
        self._remove()
        with cleaned(self._remove):
            yield

    def clear(self) -> None:
        """Do nothing: the drives are new."""

    def check(self, devices: Sequence[Device] | None = None) -> None:
        """Do nothing: nobody else knows the drives."""

    def formatted(self) -> None:
        """Do nothing: there is no journal."""

    def _remove(self) -> None:
        for drive in self._drives:
            drive.remove()
