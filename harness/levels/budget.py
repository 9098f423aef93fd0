"""Tenants of one namespace share its limit of active zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import ConfigError
from harness.levels.level import Level
from harness.store.spec import Device, TenantSpec


def check(tenants: Sequence[TenantSpec], levels: Mapping[str, Level]) -> None:
    """Refuse tenants that together can open more zones than a namespace allows.

    A tenant that shares a file system opens no zones of its own.

    Raises:
        ConfigError: the sum of a namespace is above its limit; the message has the arithmetic.
    """
    owners = [
        tenant
        for tenant in tenants
        if tenant.stack == tenant.name and levels[tenant.level].uses_zoned
    ]
    for device in {owner.device.identity.key: owner.device for owner in owners}.values():
        _check(device, [one for one in owners if one.device.identity == device.identity], levels)


def _check(device: Device, owners: Sequence[TenantSpec], levels: Mapping[str, Level]) -> None:
    limit = device.zone_limit
    if limit is None:
        return
    shares = [limit if one.active is None else one.active for one in owners]
    if sum(shares) <= limit:
        return
    parts = [f"{one.name} ({one.level}) {n}" for one, n in zip(owners, shares, strict=True)]
    options = {
        f"{one.level}: {levels[one.level].active_option}"
        for one in owners
        if levels[one.level].active_option
    }
    raise ConfigError(
        f"{device.path} allows {limit} active zones, its tenants can open "
        f"{' + '.join(parts)} = {sum(shares)}",
        hint=f"divide them with options ({', '.join(sorted(options)) or 'these levels have none'}),"
        " or give each tenant a namespace",
        code="active-zones-over-budget",
    )
