"""``zonelab verify --claims``: pass, fail, not shown, and invalid files of claims."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.judge import claims, stats
from analysis.judge.claims import ClaimOutcome, JudgedClaim
from analysis.read.load import load
from harness.cli.main import main
from harness.errors import ConfigError
from harness.store.result import Result, Status
from harness.store.spec import Claim, Reason
from tests.fixtures.campaigns import with_metric, with_status, write_on_demand
from tests.fixtures.example import unpacked

WRITTEN = "overwrite.device_written"
RATE = "overwrite.throughput"
EXT4 = "conventional-ext4"


def toml(folder: Path, *tables: str) -> Path:
    path = folder / "claims.toml"
    path.write_text("\n".join(f"[[claim]]\n{table}" for table in tables))
    return path


def table(oracle: str, level: str = "zlfs", metric: str = WRITTEN, more: str = "") -> str:
    return (
        f'id = "{level}-{oracle}-{metric}"\nmetric = "{metric}"\nlevel = "{level}"\n'
        f'baseline = "{EXT4}"\noracle = "{oracle}"\n{more}'
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_on_demand(
        tmp_path / "c", series=False, skipped={"xfs": Reason("kernel-too-old", "no zoned xfs")}
    )


Outcomes = Callable[..., dict[str, ClaimOutcome]]


@pytest.fixture
def outcomes(folder: Path) -> Outcomes:
    def judged(*tables: str) -> dict[str, ClaimOutcome]:
        found = claims.judge(load(folder), claims.read(toml(folder, *tables)))
        return {one.claim.id: one.outcome for one in found}

    return judged


# In these synthetic campaigns zlfs writes about 1.25 times as much as ext4, zenfs 1.12 times.
@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (table("worse"), ClaimOutcome.PASS),
        (table("different"), ClaimOutcome.PASS),
        (table("better"), ClaimOutcome.FAIL),
        (table("better", metric=RATE), ClaimOutcome.NOT_SHOWN),  # a time on an emulated device
        (table("worse", level="xfs"), ClaimOutcome.NOT_SHOWN),  # skipped
        (table("worse", level="dm-zap"), ClaimOutcome.NOT_SHOWN),  # not there at all
        (table("worse", metric="overwrite.pad_bytes"), ClaimOutcome.NOT_SHOWN),  # not measured
        (table("worse", metric="over*.device_written"), ClaimOutcome.NOT_SHOWN),  # no one metric
        (table("different", metric="fillrandom.user_bytes"), ClaimOutcome.NOT_SHOWN),
        (table("band", more="low = 1.1\nhigh = 1.4"), ClaimOutcome.PASS),
        (table("band", more="low = 1.4\nhigh = 1.5"), ClaimOutcome.FAIL),
        (table("band", more="low = 1.0\nhigh = 1.1"), ClaimOutcome.FAIL),
        (table("band", more="low = 1.4\nhigh = 1.5\ntolerance = 0.3"), ClaimOutcome.PASS),
        (table("band", more="low = 1.25\nhigh = 1.5"), ClaimOutcome.NOT_SHOWN),  # reaches over
        # ext4 writes none of it, so there is a difference and no ratio.
        (
            table("band", metric="overwrite.zoned_written", more="low = 1\nhigh = 1e12"),
            ClaimOutcome.NOT_SHOWN,
        ),
        (table("band", metric=RATE, more="low = 0.1\nhigh = 9"), ClaimOutcome.NOT_SHOWN),
        (table("band", metric="overwrite.user_bytes", more="low = 1\nhigh = 1"), ClaimOutcome.PASS),
    ],
)
def test_outcomes(outcomes: Outcomes, text: str, outcome: ClaimOutcome) -> None:
    assert list(outcomes(text).values()) == [outcome]


def test_ordinal_claims_of_a_file_are_holm_corrected(outcomes: Outcomes, folder: Path) -> None:
    """Bands and rows without a result are not of the family; other claims are."""

    def p_values(*tables: str) -> list[float]:
        judged = claims.judge(load(folder), claims.read(toml(folder, *tables)))
        return [float(found[0]) for one in judged if (found := re.findall(r"Holm p (.*)", one.why))]

    tables = [table("worse", level=level) for level in ("zlfs", "zenfs")]
    alone = [p_values(one)[0] for one in tables]
    assert alone[0] != alone[1]
    together = p_values(
        *tables, table("band", more="low = 1\nhigh = 2"), table("worse", metric=RATE)
    )
    assert together == [pytest.approx(p, rel=0.1) for p in stats.holm(alone)]
    # A claim that could have been tested and was not counts.
    untested = p_values(*tables, table("worse", level="btrfs"), table("worse", metric="run.wa_dev"))
    assert untested == [pytest.approx(p, rel=0.1) for p in stats.holm([*alone, 1.0, 1.0])[:2]]


def test_a_descriptive_metric_counts_as_untested(tmp_path: Path) -> None:
    """As in the study's own family: its difference is certain, and has no better side."""
    read = "overwrite.device_read"

    def change(result: Result) -> Result:
        factor = 2.0 if result.level == "zenfs" else 1.0
        odd = 1 + result.repetition * factor % 3 / 1e3
        return with_metric(result, read, 1e9 * factor * odd)

    folder = write_on_demand(tmp_path / "c", series=False, change=change)

    def judged(*tables: str) -> list[JudgedClaim]:
        return list(claims.judge(load(folder), claims.read(toml(folder, *tables))))

    def p_value(why: str) -> float:
        return float(why.rpartition("Holm p ")[2])

    descriptive = table("different", level="zenfs", metric=read)
    (alone,) = judged(table("worse"))
    both, beside = judged(table("worse"), descriptive)
    assert p_value(both.why) == pytest.approx(2 * p_value(alone.why), rel=0.1)
    assert (beside.outcome, beside.why) == (ClaimOutcome.NOT_SHOWN, "descriptive")


def test_a_claim_about_runs_that_cannot_be_compared_counts_as_untested(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False, flags={"zlfs": {"sync": True}})

    def p_value(*levels: str) -> float:
        file = toml(folder, *(table("worse", level=level) for level in levels))
        *_, last = claims.judge(load(folder), claims.read(file))
        return float(last.why.rpartition("Holm p ")[2])

    assert p_value("zlfs", "zenfs") == pytest.approx(2 * p_value("zenfs"), rel=0.1)


def test_one_stratum_that_fails_makes_a_claim_fail(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        is_less = result.level == "zlfs" and result.factors == {"scheduler": "mq-deadline"}
        return with_metric(result, WRITTEN, 0.5, "B") if is_less else result

    factors = ({"scheduler": "none"}, {"scheduler": "mq-deadline"}, {"scheduler": "kyber"})
    folder = write_on_demand(tmp_path / "c", series=False, factors=factors, change=change)

    def judged(more: str = "") -> JudgedClaim:
        file = toml(folder, table("worse", more=more))
        return claims.judge(load(folder), claims.read(file))[0]

    assert judged('where = {scheduler = "none"}').outcome is ClaimOutcome.PASS
    assert judged('where = {scheduler = "none"}').found.endswith(")")  # no stratum
    assert judged('where = {scheduler = "mq-deadline"}').outcome is ClaimOutcome.FAIL
    assert judged().outcome is ClaimOutcome.FAIL
    assert "scheduler mq-deadline" in judged().found


def test_a_stratum_without_the_level_does_not_pass(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        factors=({"scheduler": "none"}, {"scheduler": "kyber"}),
        drop=lambda spec: spec.level == "zlfs" and spec.factors == {"scheduler": "kyber"},
    )
    (found,) = claims.judge(load(folder), claims.read(toml(folder, table("worse"))))
    assert found.outcome is ClaimOutcome.NOT_SHOWN
    assert found.why == "zlfs (scheduler kyber): no ok run (none there)"


@pytest.mark.parametrize(
    ("status", "outcome", "why"),
    [
        (Status.FAILED, ClaimOutcome.NOT_SHOWN, "zlfs (scheduler kyber): no ok run (3 failed)"),
        (Status.SKIPPED, ClaimOutcome.PASS, "worse, Holm p"),
    ],
)
def test_a_stratum_in_which_both_sides_failed_does_not_pass(
    tmp_path: Path, status: Status, outcome: ClaimOutcome, why: str
) -> None:
    """A stratum in which both were skipped, for example without the program, has no row."""

    def change(result: Result) -> Result:
        is_lost = result.level in (EXT4, "zlfs") and result.factors == {"scheduler": "kyber"}
        return with_status(result, status) if is_lost else result

    factors = ({"scheduler": "none"}, {"scheduler": "kyber"})
    folder = write_on_demand(tmp_path / "c", series=False, factors=factors, change=change)
    (found,) = claims.judge(load(folder), claims.read(toml(folder, table("worse"))))
    assert found.outcome is outcome
    assert found.why.startswith(why)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (table("worse"), "worse"),
        (table("band", more="low = 1\nhigh = 1.5"), "1 .. 1.5"),
        (table("band", more="low = 1\nhigh = 1.5\ntolerance = 0.2"), "1 .. 1.5 ±20 %"),
    ],
)
def test_what_is_claimed_in_words(tmp_path: Path, text: str, expected: str) -> None:
    (claim,) = claims.read(toml(tmp_path, text))
    assert claim.expected == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[claim]", "Expected"),
        ("x = 1", r"needs \[\[claim\]\]"),
        ("claim = 1", r"needs \[\[claim\]\]"),
        ("claim = []", r"needs \[\[claim\]\]"),
        ("x = 1\n[[claim]]\n" + table("worse"), r"needs \[\[claim\]\]"),
        ("[[claim]]\n" + table("best"), "one of better, worse, different, band"),
        ("[[claim]]\n" + table("band", more="low = 1"), "needs low and high"),
        ("[[claim]]\n" + table("band", more="high = 1"), "needs low and high"),
        ("[[claim]]\n" + table("band", more="low = 2\nhigh = 1"), "the band is empty"),
        ("[[claim]]\n" + table("band", more='low = "1"\nhigh = 2'), "low: expected float, got '1'"),
        ("[[claim]]\n" + table("band", more="low = -1\nhigh = 2"), "positive numbers"),
        ("[[claim]]\n" + table("band", more="low = 1\nhigh = inf"), "positive numbers"),
        (
            "[[claim]]\n" + table("band", more="low = 1\nhigh = 2\ntolerance = 1.0"),
            "tolerance 100 % or more",
        ),
        ("claim = [1]", "claim that is no table"),
        ("[[claim]]\n" + table("worse", more="low = 1\nhigh = 2"), "belong to the oracle"),
        ("[[claim]]\n" + table("worse", more="colour = 1"), "unknown field 'colour'"),
        (
            "[[claim]]\n" + table("worse", metric="overwrite.thruput"),
            "claim zlfs-worse-.*: no metric",
        ),
        ("[[claim]]\n" + table("worse").replace('level = "zlfs"\n', ""), "missing field 'level'"),
        ('[[claim]]\nmetric = "overwrite.throughput"', "claim without an id: missing field 'id'"),
        (
            "\n".join("[[claim]]\n" + table(word) for word in ("worse", "better", "better")),
            "claim zlfs-better-.*: this id occurs twice",
        ),
    ],
)
def test_files_that_are_no_claims_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        claims.read(path)


def test_a_missing_file_of_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: .*No such file"):
        claims.read(tmp_path / "none.toml")


@pytest.mark.slow
class TestCommand:
    """Claims on the complete campaign of a real rig."""

    EXAMPLE = unpacked()

    def test_the_examples_own_claims_are_judged_as_shipped(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["verify", str(self.EXAMPLE), "--claims", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [one["outcome"] for one in found] == ["not shown", "not shown"]
        assert "collection never ran" in found[0]["why"]
        assert "depend on the guest's speed" in found[1]["why"]

    def test_a_claim_that_fails(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        # RocksDB's own bytes do not depend on the guest's speed.
        text = table("band", level="f2fs", metric="overwrite.wa_lsm", more="low = 2\nhigh = 3")
        assert main(["verify", str(self.EXAMPLE), "--claims", str(toml(tmp_path, text))]) == 1
        assert "fail" in capsys.readouterr().out

    def test_a_campaign_without_raw_files_is_not_judged(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["verify", str(folder), "--claims"]) == 4  # synthetic: has no raw files
        assert "only for a whole campaign" in capsys.readouterr().err


def test_the_claims_of_a_study(tmp_path: Path) -> None:
    own = (
        Claim("C1", WRITTEN, "zlfs", EXT4, "worse"),
        Claim("C2", WRITTEN, "zlfs", EXT4, "better"),
    )
    data = load(write_on_demand(tmp_path / "c", series=False, claims=own))
    found = claims.judge(data, claims.of_plan(data.plan))
    assert [one.outcome for one in found] == [ClaimOutcome.PASS, ClaimOutcome.FAIL]
