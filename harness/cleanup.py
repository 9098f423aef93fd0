"""Clean-up after an error: a later error never replaces the first one.

The first error is raised. It carries the later ones, and :func:`later` returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.errors import Hung, Interrupted

_LATER = "zonelab_later"


@contextmanager
def cleaned(action: Callable[[], object], *, uses_device: bool = True) -> Iterator[None]:
    """Run ``action`` after the block, however the block ended. ``after`` has the same arguments."""
    try:
        yield
    except BaseException as error:
        after(error, action, uses_device=uses_device)
        raise
    action()


def after(first: BaseException, action: Callable[[], object], *, uses_device: bool = True) -> None:
    """Run ``action`` after an error, which the caller raises again; add an error of ``action``.

    A hung device blocks every program that uses it. So only an action without ``uses_device`` runs
    also after a hang.
    """
    if uses_device and hung(first) is not None:
        return
    try:
        action()
    except Interrupted:
        raise  # it comes from the user, not from the clean-up
    except Exception as error:
        add(first, error)


def add(first: BaseException, error: Exception) -> None:
    """Add a later error, with its own later errors, to the first one."""
    vars(first)[_LATER] = (*later(first), error, *later(error))


def first_of(first: Exception | None, error: Exception) -> Exception:
    """Return ``first`` with ``error`` as a later error; ``error`` itself if nothing came first.

    An interrupt by the user is returned alone, because it ends everything.
    """
    if first is None or isinstance(error, Interrupted):
        return error
    add(first, error)
    return first


def later(first: BaseException | None) -> tuple[Exception, ...]:
    """Return the later errors, in their order."""
    errors: tuple[Exception, ...] = vars(first).get(_LATER, ()) if first is not None else ()
    return errors


def hung(first: BaseException | None) -> Hung | None:
    """Return the hang among an error and its later errors; null: nothing hangs."""
    return next((error for error in (first, *later(first)) if isinstance(error, Hung)), None)
