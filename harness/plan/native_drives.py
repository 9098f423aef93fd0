"""Modelled drives in files, as ``DEVICE=model:NAME`` names them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, UsageError
from harness.levels import LEVELS
from harness.observe import native_drive
from harness.plan import drive_files, model_verdicts
from harness.plan.devices import zone_sizes
from harness.plan.drive_models import DriveModel, Zones
from harness.plan.drive_values import size
from harness.plan.fields import FieldError
from harness.plan.load import CONFIGS, names
from harness.plan.study_models import Study
from harness.store.spec import Device

PREFIX = "model:"
# Half the limit of zlfs (harness/native/zlfs/zoned/modelled_device.cc): a time check doubles it.
_MOST_DILATION = 500
DILATION = 8
_EXAMPLE = "DEVICE=model:zones-4m, or model:zn540-1tb?capacity=8GiB&dilation=16"


@dataclass(frozen=True, slots=True)
class PlannedDrive:
    """A model and its dilation: seconds of this machine per second of the model."""

    model: DriveModel
    dilation: int

    @property
    def zones(self) -> Zones:
        """Its zones; ``parse`` returns no drive without zones."""
        assert self.model.zones is not None  # noqa: S101
        return self.model.zones

    @property
    def capacity(self) -> int:
        """Bytes of all zones."""
        return self.zones.count.value * size(self.zones.capacity.value)

    def slower(self) -> PlannedDrive:
        """Return the same drive at twice the dilation."""
        return PlannedDrive(self.model, 2 * self.dilation)

    def device(self, folder: Path) -> Device:
        """Return the record of the drive, whose files are in this folder."""
        zones = self.zones
        return native_drive.device(
            folder / self.model.name,
            drive_files.served_name(self.model),
            self.dilation,
            {
                "block_size": size(self.model.front.logical_block.value),
                "zones": zones.count.value,
                "zone_size": size(zones.size.value),
                "zone_capacity": size(zones.capacity.value),
                "max_open": zones.max_open.value,
                "max_active": zones.max_active.value,
            },
        )


def parse(text: str, study: Study, configs: Path = CONFIGS) -> list[PlannedDrive]:
    """Return the drives of ``model:NAME[?capacity=SIZE&dilation=K]``, separated by commas.

    If a study varies the zone size, one named drive stands for the drives of these sizes that
    extend it.

    Raises:
        UsageError: the form or an option is wrong.
        ConfigError: there is no such model, it has no zones, or its core fails; or the study
            cannot run on such drives.
    """
    _check_study(study)
    drives = [_drive(one.strip(), configs) for one in text.split(",")]
    wanted = zone_sizes(study)
    own = {size(drive.zones.size.value) for drive in drives}
    if len(drives) == 1 and wanted and not own & set(wanted):
        drives = _of_sizes(drives[0], wanted, configs)
    if len({drive.model.name for drive in drives}) != len(drives):
        raise UsageError(f"{text} names a model twice", hint="name each once", code="named-twice")
    return drives


def _check_study(study: Study) -> None:
    if study.mix is not None:
        raise ConfigError(
            f"study {study.name} has tenants, which need block devices of the kernel",
            hint="omit DEVICE: the study then runs on a rig",
            code="needs-kernel-device",
        )
    names_ = [entry.name for entry in study.entries]
    if not any(name in LEVELS and LEVELS[name].native for name in names_):
        able = ", ".join(sorted(name for name, level in LEVELS.items() if level.native))
        raise ConfigError(
            f"no level of study {study.name} runs without a block device of the kernel: "
            f"{', '.join(dict.fromkeys(names_))}",
            hint=f"these run: {able}; or omit DEVICE: the study then runs on a rig",
            code="needs-kernel-device",
        )


def _drive(text: str, configs: Path) -> PlannedDrive:
    if not text.startswith(PREFIX):
        raise UsageError(
            f"{text!r} is not a modelled drive",
            hint=f"{_EXAMPLE}; for a real drive: ansible-playbook site.yml -e device=…",
            code="device",
        )
    name, _, options = text.removeprefix(PREFIX).partition("?")
    given = dict[str, str]()
    for option in options.split("&") if options else ():
        key, equals, value = option.partition("=")
        if key not in ("capacity", "dilation") or not equals or key in given:
            raise UsageError(f"{text}: {option!r} is not an option", hint=_EXAMPLE, code="device")
        given[key] = value
    model = drive_files.load_model(name, configs)
    if model.zones is None:
        raise ConfigError(
            f"model {name} has no zones",
            hint="zonelab model list shows models with zones",
            code="model",
        )
    _check_core(model, configs)
    if "capacity" in given:
        model = drive_files.resized(model, _bytes(text, given["capacity"]))
    return PlannedDrive(model, _dilation(text, given.get("dilation", str(DILATION))))


def _check_core(model: DriveModel, configs: Path) -> None:
    found = model_verdicts.of_drive(drive_files.served_name(model), configs)
    if found is None or found[1].core_failed:
        what = "is not validated" if found is None else "fails"
        raise ConfigError(
            f"the core of model {model.name} {what}, so its times describe no drive",
            hint="zonelab model list shows which models pass",
            code="model",
        )


def _bytes(text: str, value: str) -> int:
    try:
        return size(value)
    except FieldError as error:
        raise UsageError(f"{text}: {error}", hint=error.hint or _EXAMPLE, code="device") from None


def _dilation(text: str, value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= _MOST_DILATION:
        raise UsageError(
            f"{text}: dilation is a whole number from 1 to {_MOST_DILATION}",
            hint=_EXAMPLE,
            code="device",
        )
    return int(value)


def _of_sizes(drive: PlannedDrive, wanted: list[int], configs: Path) -> list[PlannedDrive]:
    """Return the drives that extend this one and have zones of the wanted sizes."""
    found = dict[int, PlannedDrive]()
    for name in names("models", configs):
        if drive.model.name in drive_files.bases_of(name, configs):
            model = drive_files.load_model(name, configs)
            if model.zones is not None and size(model.zones.size.value) in wanted:
                _check_core(model, configs)
                found.setdefault(size(model.zones.size.value), PlannedDrive(model, drive.dilation))
    if len(found) < len(set(wanted)):
        return [drive]  # the plan names the size that is missing
    return [found[one] for one in wanted]
