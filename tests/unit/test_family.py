"""Claims are one family whatever a view shows; rows that are no claims have no victor."""

import json
from pathlib import Path

import pytest

from analysis.judge.compare import Comparison, compare
from analysis.judge.family import NO_TWINS, UNKNOWN_SPREAD
from analysis.judge.verdicts import Verdict
from analysis.read.load import CampaignData, load, load_pool
from analysis.show.headline import answers
from analysis.show.render import render
from harness.store.result import Result, Status
from harness.store.spec import Claim
from tests.fixtures.campaigns import with_metric, with_status, write_on_demand
from tests.fixtures.twins import as_variants, twins

BASE = "conventional-ext4"
WRITTEN = "overwrite.device_written"
AMPLIFICATION = "overwrite.write_amplification"
CLAIMS = (
    Claim("C1", WRITTEN, "zlfs", BASE, "worse"),
    Claim("C2", WRITTEN, "zenfs", BASE, "worse"),
)


@pytest.fixture
def campaign(tmp_path: Path) -> CampaignData:
    return load(write_on_demand(tmp_path / "c", series=False, claims=CLAIMS))


def p_of(campaign: CampaignData, **view: object) -> float | None:
    comparison = compare(campaign, **view)  # type: ignore[arg-type]
    return next(row.p_holm for row in comparison.rows if row.claim == "C1")


def test_a_narrower_view_does_not_change_the_p_of_a_claim(campaign: CampaignData) -> None:
    whole = p_of(campaign)
    assert whole is not None
    assert p_of(campaign, against=["zlfs"]) == whole
    assert p_of(campaign, against=["zlfs"], metrics=[WRITTEN]) == whole


def test_every_claim_has_a_row_of_its_own_whatever_is_shown(tmp_path: Path) -> None:
    between = Claim("C3", WRITTEN, "zlfs", "zenfs", "worse")
    folder = write_on_demand(tmp_path / "c", series=False, claims=(*CLAIMS, between))
    found = compare(load(folder), against=["zenfs"])
    assert {row.level for row in found.rows} == {"zenfs"}
    rows = {row.claim: (row.level, row.baseline) for row in found.claims}
    assert rows == {"C1": ("zlfs", BASE), "C2": ("zenfs", BASE), "C3": ("zlfs", "zenfs")}
    third = found.claims[2]
    assert third.p_holm is not None
    assert third.p_holm >= (third.estimate.p_value or 0)
    (line,) = [line for line in render(found, "table").splitlines() if line.startswith("C3 ")]
    assert line.split()[:4] == ["C3", WRITTEN, "zlfs", "zenfs"]
    assert [row["claim"] for row in json.loads(render(found, "json"))["claims"]] == [*rows]


def test_another_contrast_has_no_claims(campaign: CampaignData) -> None:
    found = compare(campaign, contrast="cell")
    assert found.claims == ()
    assert "Holm p" not in render(found, "md")


@pytest.mark.parametrize(
    "untested",
    [
        Claim("C3", "overwrite.pad_bytes", "zlfs", BASE, "worse"),  # null in every run
        Claim("C3", WRITTEN, "dm-zap", BASE, "worse"),  # without a run, so without a row
    ],
)
def test_a_claim_that_could_not_be_tested_counts_in_the_family(
    tmp_path: Path, untested: Claim
) -> None:
    missing = (*CLAIMS, untested)
    two, three = (
        load(write_on_demand(tmp_path / str(len(claims)), series=False, claims=claims))
        for claims in (CLAIMS, missing)
    )
    few, many = p_of(two), p_of(three)
    assert few is not None
    assert many is not None
    assert many == pytest.approx(min(1, 1.5 * few), rel=0.01)


def test_a_claim_about_runs_that_cannot_be_compared_counts_with_p_1(tmp_path: Path) -> None:
    def p_of_zenfs(*claims: Claim) -> float | None:
        flags = {"zlfs": {"sync": True}}
        folder = tmp_path / str(len(claims))
        rows = compare(load(write_on_demand(folder, flags=flags, claims=claims))).rows
        assert {row.level: row.verdict for row in rows}["zlfs"] is Verdict.NOT_COMPARABLE
        return next(row.p_holm for row in rows if row.claim == "C2")

    alone, both = p_of_zenfs(CLAIMS[1]), p_of_zenfs(*CLAIMS)
    assert alone is not None
    assert both == pytest.approx(min(1, 2 * alone))


@pytest.mark.parametrize("without", ["zlfs", BASE])
def test_a_stratum_without_one_side_counts_with_p_1(tmp_path: Path, without: str) -> None:
    def p_of_zlfs(name: str, **options: object) -> tuple[float | None, set[str]]:
        factors = ({"scheduler": "none"}, {"scheduler": "kyber"})
        folder = write_on_demand(
            tmp_path / name,
            series=False,
            factors=factors,
            claims=CLAIMS[:1],
            **options,  # type: ignore[arg-type]
        )
        found = compare(load(folder))
        (row,) = (row for row in found.rows if row.claim and row.stratum == "scheduler none")
        return row.p_holm, {row.verdict.value for row in found.claims}

    both, _ = p_of_zlfs("both")
    one, words = p_of_zlfs(
        "one",
        drop=lambda spec: spec.level == without and spec.factors == {"scheduler": "kyber"},
    )
    assert both is not None
    assert one is not None
    assert Verdict.NOT_COMPARABLE.value in words
    alone = compare(
        load(
            write_on_demand(
                tmp_path / "alone",
                series=False,
                factors=({"scheduler": "none"},),
                claims=CLAIMS[:1],
            )
        )
    )
    (row,) = (row for row in alone.rows if row.claim)
    assert row.p_holm is not None
    assert one == pytest.approx(min(1.0, 2 * row.p_holm))


def test_a_stratum_in_which_both_sides_failed_counts_with_p_1(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        is_lost = result.level in (BASE, "zlfs") and result.factors == {"scheduler": "kyber"}
        return with_status(result, Status.FAILED) if is_lost else result

    def judged(*schedulers: str) -> Comparison:
        folder = write_on_demand(
            tmp_path / str(len(schedulers)),
            series=False,
            factors=tuple({"scheduler": name} for name in schedulers),
            claims=(CLAIMS[0], Claim("C2", "overwrite.throughput", "zlfs", BASE, "worse")),
            change=change,
        )
        return compare(load(folder))

    alone, *times = judged("none").claims
    lost, kept, *more = sorted(judged("none", "kyber").claims, key=lambda row: row.claim or "")
    assert (alone.verdict, lost.verdict) == (Verdict.WORSE, Verdict.NOT_COMPARABLE)
    assert alone.p_holm is not None
    assert kept.p_holm == pytest.approx(2 * alone.p_holm)
    # A time on an emulated device is no result in any stratum, so it does not count.
    assert {row.verdict for row in (*times, *more)} == {Verdict.NOT_A_RESULT}


def test_part_of_the_runs_is_not_the_declared_claim(tmp_path: Path) -> None:
    options = {"series": False, "claims": CLAIMS, "hosts": ("one", "two")}
    campaign = load(write_on_demand(tmp_path / "c", **options))  # type: ignore[arg-type]
    part = compare(campaign, where={"host": "one"})
    assert all(row.claim is None for row in part.rows)
    assert not {row.verdict for row in part.rows} & {Verdict.BETTER, Verdict.WORSE}
    assert any(row.claim for row in compare(campaign).rows)


def test_claims_are_of_one_campaign(tmp_path: Path) -> None:
    folders = [
        write_on_demand(tmp_path / name, series=False, claims=CLAIMS) for name in ("one", "two")
    ]
    rows = compare(load_pool(folders), contrast="level").rows
    assert {row.verdict for row in rows if row.metric == WRITTEN} == {Verdict.HIGHER}
    assert all(row.claim is None for row in rows)


def test_only_claims_have_a_victor(campaign: CampaignData) -> None:
    for row in compare(campaign).rows:
        victory = row.verdict in (Verdict.BETTER, Verdict.WORSE)
        assert not victory or row.claim is not None
    free = compare(campaign, metrics=["fillrandom.device_written"])
    assert {row.verdict for row in free.rows} == {Verdict.HIGHER}
    assert free.regressions(0.05)  # a gate still sees a loss


def warned(comparison: Comparison) -> dict[str, bool]:
    """Return level → whether a note reports that the spread of equal cells is unknown."""
    return {row.level: NO_TWINS in row.notes for row in comparison.rows if row.metric == WRITTEN}


def test_a_victory_without_twins_has_a_warning(tmp_path: Path) -> None:
    claims = (Claim("C1", WRITTEN, "zenfs", "zlfs", "worse"),)
    beside = twins(tmp_path / "twins", 0.0001, claims)
    assert {row.level: row.verdict for row in beside.rows}["zenfs"] is Verdict.WORSE
    assert not any(warned(beside).values())

    def alone(folder: str, spread: float, *claims: Claim) -> Comparison:
        def change(result: Result) -> Result:
            factor = 2.0 if result.level == "zlfs" else 1.0
            odd = 1 + spread * (result.repetition * (1 + (result.level == "zlfs")) % 3)
            return with_metric(result, WRITTEN, 1e9 * factor * odd)

        return compare(load(write_on_demand(tmp_path / folder, claims=claims, change=change)))

    assert warned(alone("spread", 1e-3, CLAIMS[0])) == {"zlfs": True, "zenfs": False}
    assert not any(warned(alone("free", 1e-3)).values())  # higher is no victory
    assert not any(warned(alone("exact", 0.0, CLAIMS[0])).values())  # counts that do not vary


def test_a_victory_with_twins_that_failed_names_them(tmp_path: Path) -> None:
    """``zlfs-again`` is a twin of zlfs; none, one or all of its runs are ok."""

    def victory(folder: str, *, ok: int, missing: bool = False, silent: bool = False) -> Comparison:
        def change(result: Result) -> Result:
            if result.level == "zlfs-again" and result.repetition > ok:
                return with_status(result, Status.FAILED)
            factor = {"zenfs": 2.0}.get(result.level, 0.0 if silent else 1.0)
            if result.level == "conventional-ext4":
                factor = 1.0
            odd = 1 + 1e-3 * (result.repetition * len(result.level) % 7)
            return with_metric(result, WRITTEN, 1e9 * factor * odd)

        written = write_on_demand(
            tmp_path / folder,
            series=False,
            levels=("conventional-ext4", "zlfs", "zlfs-again", "zenfs"),
            claims=(Claim("C1", WRITTEN, "zenfs", "conventional-ext4", "worse"),),
            metrics=(WRITTEN,),
            change=change,
            drop=lambda spec: missing and spec.level == "zlfs-again",
        )
        as_variants(written)
        if missing:  # the plan has the twin, also if no run of it is stored
            plan = json.loads((written / "plan.json").read_text())
            for spec in plan["hosts"][0]["runs"]:
                if spec["level"] == "zlfs-again":
                    spec |= {"level": "zlfs", "variant": "again"}
            (written / "plan.json").write_text(json.dumps(plan))
        return compare(load(written))

    def note(comparison: Comparison) -> str:
        (row,) = (row for row in comparison.rows if row.claim)
        assert row.verdict is Verdict.WORSE
        found = [note for note in row.notes if note.endswith(UNKNOWN_SPREAD)]
        assert NO_TWINS not in found
        text = answers(comparison)[-1].text
        assert ("equal cells is unknown" in text) == bool(found)
        assert all(one in f"{text[0].lower()}{text[1:]}" for one in found), text
        return "".join(found)

    few = "twins exist but have fewer than 2 ok runs with a value (zlfs-again: {}), "
    assert note(victory("none", ok=0)).startswith(few.format(0))
    assert note(victory("one", ok=1)).startswith(few.format(1))
    assert note(victory("missing", ok=3, missing=True)).startswith(few.format(0))
    assert note(victory("zero", ok=3, silent=True)).startswith("values of twins are 0 or have too")
    assert note(victory("all", ok=3)) == ""


def test_one_number_is_one_row(campaign: CampaignData, tmp_path: Path) -> None:
    both = compare(campaign, metrics=[AMPLIFICATION, WRITTEN])
    # The claim stays, although the other metric comes first.
    assert {row.metric for row in both.rows} == {WRITTEN}
    assert all(f"the same number: {AMPLIFICATION}" in row.notes for row in both.rows)

    def apart(result: Result) -> Result:
        return with_metric(result, AMPLIFICATION, 2.0 + 0.01 * result.repetition)

    other = load(write_on_demand(tmp_path / "d", series=False, change=apart))
    two = compare(other, metrics=[AMPLIFICATION, WRITTEN])
    assert {row.metric for row in two.rows} == {WRITTEN, AMPLIFICATION}
