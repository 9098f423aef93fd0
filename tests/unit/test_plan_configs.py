"""Every shipped study, workload and tuning: schema, upstream flags, fit to the rig."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml

from harness.cli.main import main
from harness.errors import ExitCode
from harness.levels import LEVELS
from harness.plan import load
from harness.plan.devices import zone_sizes
from harness.plan.expand import expand
from harness.plan.predict import TIMEOUT_FACTOR
from harness.plan.reference import with_zones_of
from harness.plan.schemas import MODELS, schema_text
from harness.plan.study_models import Study
from harness.plan.tuning_models import Tuning
from harness.plan.workload_models import BARE_WORKLOADS, Workload
from harness.store.codec import decode
from harness.store.spec import Inspection, OtherDevice, PhaseRole
from harness.tools import kvmix
from harness.workloads import PROGRAMS

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "plan"
FILES = sorted(
    (kind, path)
    for folder, kind in (
        ("studies", "study"),
        ("workloads", "workload"),
        ("tunings", "tuning"),
        ("mixes", "mix"),
        ("models", "model"),
        ("models/curves", "curves"),
        ("jobs", "job"),
    )
    for path in (load.CONFIGS / folder).glob("*.yml")
)
STUDIES = load.names("studies")
# Those of RocksDB: probes of bare zones have neither database nor utilisation.
OF_DATABASES = [name for name in STUDIES if isinstance(load.load_study(name)[1], Workload)]


def rig(study: Study | None = None) -> Inspection:
    """Return the NVMe rig, or one drive per zone size for a study that varies zone sizes."""
    if study is not None and zone_sizes(study):
        return with_zones_of(zone_sizes(study))
    found = decode(Inspection, json.loads((FIXTURES / "synthetic-rig.json").read_text()))
    if study is None or study.mix is None:
        return found
    other = replace(found.device.identity, eui64="5254005a4c000003", nsid=3)
    device = replace(found.device, path="/dev/nvme0n3", identity=other)
    return replace(found, others=(OtherDevice(device, (), found.levels),))


@pytest.mark.parametrize("name", ["block-smoke", "block-level-timed", "block-level"])
def test_the_sample_drive_knows_every_level_so_a_sweep_can_be_tried(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of CONTRIBUTING."""
    assert {probe.level for probe in rig().levels} == set(LEVELS)
    line = re.search(r"`zonelab (plan NAME .*--check)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert line is not None
    words = line[1].replace("NAME", name).replace("tests/", f"{ROOT}/tests/").split()
    assert main(words) == ExitCode.OK
    assert "raw-conventional" in capsys.readouterr().out


def known_flags(version: str) -> set[str]:
    text = (FIXTURES / f"db_bench-{version}-help.txt").read_text()
    return set(re.findall(r"^    -(\w+) \(", text, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_generated_schemas_are_up_to_date(name: str) -> None:
    stored = (load.CONFIGS / "schema" / f"{name}.json").read_text()
    assert stored == schema_text(MODELS[name]), "run: zonelab plan --schemas"


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda v: getattr(v, "name", v))
def test_shipped_files_validate_against_their_schema(kind: str, path: Path) -> None:
    data = yaml.safe_load(path.read_text())
    if kind == "workload" and (field := BARE_WORKLOADS.keys() & data.keys()):
        kind = {"zones": "probe-workload", "fio": "fio-workload"}[field.pop()]
    schema = json.loads((load.CONFIGS / "schema" / f"{kind}.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(data)
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        jsonschema.Draft202012Validator(schema).validate({**data, "surprise": 1})


def test_tunings_load() -> None:
    for path in (load.CONFIGS / "tunings").glob("*.yml"):
        data = yaml.safe_load(path.read_text())
        assert load.build(Tuning, data, str(path)).name == path.stem


@pytest.mark.parametrize("version", ["7.8", "9.10"])
@pytest.mark.parametrize("name", OF_DATABASES)
def test_every_flag_exists_upstream_and_none_is_the_runners(name: str, version: str) -> None:
    study, workload = load.load_study(name)
    plan = expand(study, workload, [("rig", rig(study))], "c")
    phases = [phase for run in plan.hosts[0].runs for phase in run.phases]
    for phase in phases:
        used = set(phase.flags)
        if phase.program == kvmix.PROGRAM:  # its own flags stay what they are
            used -= kvmix.MIX_FLAGS
        assert used <= known_flags(version)
        assert not used & PROGRAMS["db_bench"].reserved


@pytest.mark.parametrize("name", OF_DATABASES)
def test_every_flag_of_a_workload_has_a_reason(name: str) -> None:
    _, workload = load.load_study(name)
    own = load.CONFIGS / "workloads" / f"{workload.name}.yml"
    base = yaml.safe_load(own.read_text()).get("extends")
    files = [own, *([own.with_name(f"{base}.yml")] if base else [])]
    for flag in workload.flags:
        assert any(_has_reason(file.read_text().splitlines(), flag) for file in files), flag


def _has_reason(lines: list[str], flag: str) -> bool:
    found = [i for i, line in enumerate(lines) if line.startswith(f"  {flag}:")]
    if not found:
        return False
    above = next(line for line in reversed(lines[: found[0]]) if not _is_flag(line))
    return "#" in lines[found[0]] or above.lstrip().startswith("#")


def _is_flag(line: str) -> bool:
    return re.match(r"  \w+:", line) is not None and "#" not in line


@pytest.mark.parametrize("name", OF_DATABASES)
def test_shipped_studies_fit_the_rig_and_reach_their_utilisation(name: str) -> None:
    study, workload = load.load_study(name)
    plan = expand(study, workload, [("rig", rig(study))], "c")
    for run in plan.hosts[0].runs:
        assert run.phases[0].role is PhaseRole.FILL
        if run.tenants:  # each has a part of its own (test_mixes.py)
            continue
        assert run.cold is not None
        achieved = run.predicted.live_bytes / run.device.capacity
        assert achieved == pytest.approx(run.cold.target_utilisation, abs=run.cold.tolerance / 4)


def test_a_utilisation_that_does_not_fit_is_a_result() -> None:
    study, workload = load.load_study("utilisation")
    study = study.model_copy(update={"factors": {"target_utilisation": ("80%", "99%")}})
    runs = expand(study, workload, [("rig", rig(study))], "c").hosts[0].runs
    assert {run.factors["target_utilisation"]: run.infeasible is not None for run in runs} == {
        "80%": False,
        "99%": True,
    }
    for run in runs:
        assert run.cold is not None
        assert run.cold.peak_bytes > run.cold.bytes
    for run in expand(*load.load_study("smoke"), [("rig", rig())], "c").hosts[0].runs:
        assert run.cold is not None
        assert run.cold.peak_bytes == 0  # not the question of this study


def test_the_default_study_is_as_documented() -> None:
    study, workload = load.load_study("integration-levels")
    every, _ = load.load_study("levels-all")
    assert {e.name for e in study.entries} < {e.name for e in every.entries}
    assert {e.name for e in every.entries} == {
        name for name, level in LEVELS.items() if level.takes_database
    }  # a row or a reason for each
    assert (study.repetitions, study.target_utilisation, study.baseline) == (
        4,
        0.8,
        "conventional-ext4",
    )
    run = expand(study, workload, [("rig", rig())], "c").hosts[0].runs[0]
    overwrite = next(p for p in run.phases if p.name == "overwrite")
    free = run.device.capacity - run.predicted.live_bytes
    assert overwrite.operations is not None
    assert overwrite.operations * overwrite.user_bytes_per_operation >= free
    assert overwrite.expects_gc


def test_smoke_runs_are_short() -> None:
    study, workload = load.load_study("smoke")
    runs = expand(study, workload, [("rig", rig())], "c").hosts[0].runs
    assert len(runs) == 3
    assert all(run.predicted.seconds <= 25 for run in runs)


# Microseconds an operation on f2fs of the NVMe rig, two cores without KVM, 2026-11-21.
MEASURED = [
    ("all-benchmarks", "fillseq", 42),
    ("all-benchmarks", "fillrandom", 72),
    ("all-benchmarks", "readseq", 13),
    ("all-benchmarks", "readrandom", 268),
    ("integration-levels", "overwrite", 505),
    ("atc21-overwrite", "fillrandom", 506),
]


@pytest.mark.parametrize(("study", "phase", "micros"), MEASURED)
def test_phases_take_about_the_predicted_time(study: str, phase: str, micros: int) -> None:
    known, workload = load.load_study(study)
    # without its own least timeout, a phase's timeout is a multiple of its prediction
    phases = tuple(each.model_copy(update={"timeout": 1}) for each in workload.phases)
    bare = workload.model_copy(update={"phases": phases})
    run = expand(known, bare, [("rig", rig())], "c").hosts[0].runs[0]
    planned = next(spec for spec in run.phases if spec.name == phase)
    predicted = planned.timeout_seconds / TIMEOUT_FACTOR / (planned.operations or 1) * 1e6
    assert micros / 2 <= predicted <= 2 * micros


def test_primary_claims_compare_things_the_study_has() -> None:
    for name in STUDIES:
        study, _ = load.load_study(name)
        if study.mix is not None:
            assert study.claims == ()
            continue
        values = (
            {e.label for e in study.entries}
            if study.contrast == "level"
            else set(map(str, study.factors[study.contrast]))
        )
        for claim in study.claims:
            assert {claim.level, claim.baseline} <= values
            assert claim.metric in study.metrics
