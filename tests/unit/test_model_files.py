"""Models, jobs and curves: what is shipped fits together, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.model import validation
from analysis.read import points
from harness import zn540
from harness.cli.main import main
from harness.errors import ConfigError, ExitCode
from harness.plan import drive_files, model_verdicts
from harness.plan.curve_models import job_data
from harness.plan.drive_files import load_curves, load_job, load_model
from harness.plan.drive_values import size
from harness.plan.load import CONFIGS, names
from harness.plan.model_verdicts import ModelVerdict

ZN540 = CONFIGS / "models" / "zn540-1tb.yml"
JOB = CONFIGS / "jobs" / "randread-4k.yml"


@pytest.mark.parametrize("name", names("models"))
def test_shipped_models_load(name: str) -> None:
    model = load_model(name)
    data = drive_files.program_input(model)
    assert data["flash"]["program"]["origin"] in {"measured", "derived", "fitted", "assumed"}
    assert "curves" not in data


@pytest.mark.parametrize("name", names("jobs"))
def test_shipped_jobs_load(name: str) -> None:
    assert drive_files.job_input(load_job(name))["name"] == name


def test_the_model_has_the_geometry_that_the_runner_knows() -> None:
    zones = load_model("zn540-1tb").zones
    assert zones is not None
    assert size(zones.capacity.value) == zn540.ZONE_CAPACITY
    assert (zones.count.value, zones.max_active.value) == (904, 14)


def test_every_published_point_has_a_job_and_a_grade() -> None:
    curves, model = load_curves("zn540"), load_model("zn540-1tb")
    measured = points.load(points.FOLDER / "zn540.csv", curves.curves)
    jobs = validation.jobs(curves, measured, model)
    assert len(jobs) == len({(point.curve, point.x) for point in measured})
    assert {point.curve for point in measured} == set(curves.curves)
    for point in measured:
        # Means and rates are core, quantiles are tails; reads at depth 32 under writes are tails.
        grade = curves.curves[point.curve].statistics[point.statistic]
        tail = point.statistic in {"p95", "p99", "p99.99"} or point.curve == "read_under_write_qd32"
        assert (grade == "tail") == tail, point


def test_a_template_is_filled_with_x_and_whole_blocks() -> None:
    curves, model = load_curves("zn540"), load_model("zn540-1tb")
    finish = curves.curves["finish"]

    def client(x: float) -> Any:
        case = finish.case(x)
        assert case is not None
        return job_data("finish", case, x, model)["clients"][0]

    assert client(0)["sequence"] == ["open", "finish"]
    capacity = zn540.ZONE_CAPACITY
    written = [client(x)["refill"]["written"] for x in (0.0004, 50, 99.9996)]
    assert written == ["4096B", f"{capacity // 2}B", f"{capacity - 4096}B"]
    writes = curves.curves["write4k_inter_zone"].cases[0]
    data = job_data("write4k_inter_zone", writes, 14, model)
    assert (data["clients"][0]["depth"], data["clients"][0]["zones"]) == (14, [0, 14])


def test_a_model_extends_another_one_group_by_group() -> None:
    base, drive = load_model("zn540-1tb"), load_model("conventional-28op")
    assert (drive.flash, drive.front, drive.host) == (base.flash, base.front, base.host)
    assert (drive.zones, drive.curves) == (None, None)
    assert base.zones is not None
    assert drive.ftl is not None
    assert size(drive.ftl.capacity.value) == 904 * size(base.zones.capacity.value)
    assert drive.ftl.over_provisioning_pct.value == 28
    small = load_model("conventional-7op").ftl
    assert small is not None
    assert (
        small.model_copy(update={"over_provisioning_pct": drive.ftl.over_provisioning_pct})
        == drive.ftl
    )


@pytest.mark.parametrize("base", ["mine", "nothing"])
def test_a_model_cannot_extend_itself_or_a_missing_one(base: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.yml").write_text(f"schema_version: 1\nname: mine\nextends: {base}\n")
    with pytest.raises(ConfigError, match=f"cannot extend {base}"):
        load_model("mine", tmp_path)


def test_a_scaled_drive_keeps_the_number_of_its_superblocks() -> None:
    model = load_model("conventional-7op")
    for capacity, superblock in ((10848 << 20, 12 << 20), (1536 << 20, 3 << 19)):
        ftl = drive_files.scaled(model, capacity).ftl
        assert ftl is not None
        assert ftl.dies is not None
        assert ftl.block_units.value * ftl.dies.value * (96 << 10) == superblock
        assert ftl.over_provisioning_pct.value == 7
        assert abs(capacity / superblock / 904 - 1) < 0.14
    assert drive_files.scaled(model, 10848 << 20).flash.erase.value == "38997ns"
    whole = drive_files.scaled(model, size("973608MiB"))
    assert whole.flash.erase.value == "3500000ns"
    with pytest.raises(ConfigError, match="map units"):
        drive_files.scaled(model, 4097)
    with pytest.raises(ConfigError, match="no conventional namespace"):
        drive_files.scaled(load_model("zn540-1tb"), 4096)


def edited(path: Path, tmp_path: Path, edit: tuple[str, Any]) -> Path:
    """Return a copy with one value replaced, or removed where it is None."""
    data = yaml.safe_load(path.read_text())
    *parents, last = edit[0].split(".")
    node = data
    for name in parents:
        node = node[int(name)] if isinstance(node, list) else node[name]
    if edit[1] is None:
        del node[last]
    else:
        node[last] = edit[1]
    copy = tmp_path / "mine.yml"
    copy.write_text(yaml.safe_dump(data))
    return copy


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("flash.colour", 1), "unknown field 'flash.colour'"),
        (("flash.page", None), "flash.page: Field required"),
        (("flash.program.value", "2514"), "flash.program.value: '2514' is not a time"),
        (("flash.program.value", "-1us"), "'-1us' is not a time"),
        (("flash.page.value", "16us"), "unknown unit 'us' in '16us'"),
        (("flash.page.value", "0.3B"), "'0.3B' is not a whole number of bytes"),
        (("front.link_rate.value", "2us"), "unknown unit 'us' in '2us'"),
        (("flash.program.origin", "guessed"), "flash.program.origin"),
        (("flash.program.source", ""), "flash.program.source"),
        (("flash.channels", 8), "flash.channels: Input should be an object"),
        (("zones.capacity.value", "1076MiB"), "1076MiB is not a whole number of stripes"),
        (("zones.capacity.value", "4096MiB"), "capacity 4096MiB is above size"),
        (("zones.max_open.value", 905), "max_open 905 is above the 904 zones"),
        (("zones.max_active.value", 905), "max_active 905 is above the 904 zones"),
        (("zones.max_active.value", 7), "max_open 14 does not fit max_active 7"),
        (("zones.ways.value", 3), "zones.ways 3 does not divide flash.ways"),
        (("zones.reset.value", [[0, "1ms"], [50, "2ms"]]), "reset has the shares [0.0, 50.0]"),
        (("zones.reset_spread_pct.value", 101), "zones.reset_spread_pct.value"),
        (("flash.channels.value", 0), "flash.channels is 0"),
        (("schema_version", 2), "2 is newer than 1"),
        (("host.stacks.passthrough", None), "no passthrough"),
        (("zones", None), "it has no namespace"),
    ],
    ids=str,
)
def test_a_wrong_model_is_one_line_with_a_hint(
    edit: tuple[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = edited(ZN540, tmp_path, edit)
    assert main(["model", "show", str(copy)]) == ExitCode.USAGE
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert len(lines) == 2, printed.err
    assert message in lines[0]
    assert lines[1].startswith("hint: ")
    assert printed.out == ""


def test_show_prints_each_number_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "show", "zn540-1tb", "--format", "json"]) == ExitCode.OK
    rows = {row["parameter"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["zones.count"]["value"], rows["zones.count"]["origin"]) == (904, "measured")
    assert rows["zones.reset_finished"]["value"] == "0 %: 1.656ms, 100 %: 15.356ms"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("clients.0.speed", 1), "unknown field 'clients.0.speed'"),
        (("clients.0.depth", 0), "clients.0.depth"),
        (("clients.0.size", "4K"), "unknown unit 'K' in '4K'"),
        (("clients.0.rate", "10"), "'10' is not a rate"),
        (("clients.0.mix", None), "client reader needs either mix or sequence"),
        (("clients.0.mix", {"erase": 1}), "clients.0.mix.erase"),
        (("clients.0.zones", [5, 5]), "zones [5, 5] hold no zone"),
        (("clients", []), "clients"),
        (("duration", "2"), "'2' is not a time"),
        (("prepare.0.written", "4KiB"), "it has fill_pct and written"),
        (("schema_version", 9), "9 is newer than 1"),
    ],
    ids=str,
)
def test_a_wrong_job_is_refused(edit: tuple[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_job(str(edited(JOB, tmp_path, edit)))
    assert message in caught.value.message
    assert caught.value.hint


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="there is no model 'zn540-1'") as model:
        load_model("zn540-1")
    assert "did you mean zn540-1tb" in model.value.hint
    with pytest.raises(ConfigError, match="there is no job 'reads'") as job:
        load_job("reads")
    assert "randread-4k" in job.value.hint


def test_a_stored_verdict_holds_for_the_validated_values_only(tmp_path: Path) -> None:
    model = load_model("zn540-1tb")
    assert model_verdicts.core(model, tmp_path) == "not validated"
    verdict = ModelVerdict(drive_files.digest(model), ("finish mean",))
    path = model_verdicts.save(model, verdict, tmp_path)
    assert model_verdicts.core(model, tmp_path) == "fails (1 of the curves)"
    model_verdicts.save(model, ModelVerdict(verdict.digest, (), ("finish mean",)), tmp_path)
    assert model_verdicts.core(model, tmp_path) == "passes, known misses: 1"
    model_verdicts.save(model, ModelVerdict(verdict.digest, ()), tmp_path)
    assert model_verdicts.core(model, tmp_path) == "passes"
    changed = load_model(str(edited(ZN540, tmp_path, ("flash.program.value", "3ms"))))
    assert model_verdicts.core(changed, tmp_path) == "not validated"
    reworded = load_model(str(edited(ZN540, tmp_path, ("flash.program.source", "else"))))
    assert model_verdicts.core(reworded, tmp_path) == "passes"
    assert model_verdicts.core(load_model("zones-4m")) == "as zn540-64k: passes, known misses: 1"
    path.write_text('{"schema_version": 2}')
    with pytest.raises(ConfigError, match="not a stored validation"):
        model_verdicts.load(model, tmp_path)
