"""The table of ratios that carry over to drives of other sizes."""

from pathlib import Path

from analysis.read.load import load
from analysis.show import scale
from harness.store.result import Result, Status
from tests.fixtures.campaigns import with_metric, with_status, write_on_demand


def test_each_cell_has_the_ratios_of_its_first_ok_run(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        capacity = result.utilisation.capacity_bytes if result.utilisation else 0
        written = with_metric(result, "run.device_written", (1 + result.repetition) * capacity)
        ended = Status.FAILED if result.repetition == 1 else Status.OK
        return with_status(written, ended)

    levels = ("f2fs", "zlfs")
    folder = write_on_demand(tmp_path / "c", series=False, levels=levels, change=change)
    found = scale.table(load(folder))
    assert found.column("cell") == list(levels)
    # Zones hold 6 MiB, as a file does; the database has 70 MiB of 384 zones.
    assert found.column("files per zone") == ["1.000", "1.000"]
    assert found.column("database / capacity") == ["0.030", "0.030"]
    assert found.column("device writes / capacity") == ["3.000", "3.000"]
