"""Files in ``configs/mixes``: tenants that share a drive."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from harness.plan.fields import FieldError, Model, Name, Processors, Seconds, Share, Size
from harness.plan.level_entry import LevelEntry
from harness.plan.workload_models import Workload

OperationRate = Annotated[float, Field(gt=0)]


class TenantLimits(Model):
    """Limits of a tenant: ``cpu`` in processors, ``read`` and ``write`` in bytes per second."""

    cpu: Processors | None = None
    memory: Size | None = None
    read: Size | None = None
    write: Size | None = None


class Tenant(Model):
    """One of several workloads that run at once.

    ``namespace`` 1 is the device under test; 2 and higher are the other named devices. ``slice`` is
    the tenant's part of the namespace, in shares of its zones. A tenant has a ``level`` of its own
    or ``shares`` the file system of the named tenant. ``instead`` replaces ``level`` on hosts that
    can run it. ``workload`` defaults to the workload of the study; its only measured phase lasts as
    long as the tenant. ``rate`` (operations per second) makes that phase an open loop. ``start``
    (seconds) counts from the common start of all tenants.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=32)]
    namespace: Annotated[int, Field(ge=1, le=64)] = 1
    slice: tuple[Share, Share] | None = None
    shares: str | None = None
    level: Name | LevelEntry | None = None
    instead: Name | LevelEntry | None = None
    workload: Name | Workload | None = None
    rate: OperationRate | None = None
    limits: TenantLimits = TenantLimits()
    weight: Annotated[float, Field(gt=0)] = 1.0
    start: Annotated[float, Field(ge=0)] = 0.0
    duration: Seconds | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Tenant:
        if (self.level is None) == (self.shares is None):
            raise FieldError(f"tenant {self.name} needs either a level or shares")
        if self.slice is not None and not self.slice[0] < self.slice[1]:
            raise FieldError(f"tenant {self.name}: its slice ends before it begins")
        if self.shares is not None and self.slice is not None:
            raise FieldError(f"tenant {self.name}: a tenant with shares has no slice of its own")
        return self


class TenantMix(Model):
    """Tenants that share a drive for ``duration``. Each is also measured alone."""

    name: Name
    description: str
    duration: Seconds
    tenants: Annotated[tuple[Tenant, ...], Field(min_length=1, max_length=16)]

    @model_validator(mode="after")
    def _tenants_fit_together(self) -> TenantMix:
        names = [tenant.name for tenant in self.tenants]
        if len(set(names)) != len(names):
            raise FieldError(f"tenant names must differ: {', '.join(names)}")
        owners = [tenant.name for tenant in self.tenants if tenant.shares is None]
        for tenant in self.tenants:
            if tenant.shares is not None and tenant.shares not in owners:
                raise FieldError(
                    f"tenant {tenant.name} shares the file system of {tenant.shares!r}",
                    hint=f"tenants with a file system of their own: {', '.join(owners)}",
                )
            if tenant.start + (tenant.duration or 1) > self.duration:
                raise FieldError(
                    f"tenant {tenant.name} would last longer than the mix ({self.duration} s)"
                )
        return self
