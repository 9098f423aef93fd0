"""``make bench-native RUN=FOLDER``: a run of zlfs on a modelled drive, repeated natively.

The run's cold data, phases, flags and seeds, on ``zlfs://model:`` with its drive and dilation: an
independent check of the rig. Rates agree where the drive is the bound; elsewhere this machine's
processor and RocksDB are compared with the rig's. Prints rates on the model's clock and writes
build/bench/native_drive.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from analysis.read import drives
from harness.cli.main import main as zonelab
from harness.levels.level import DB_IN_URI, LevelUp
from harness.run.phase import seed
from harness.store.result import Result
from harness.store.rundir import load_result, load_spec
from harness.store.spec import RunSpec
from harness.tools import proc, zlfs
from harness.workloads import load_program
from harness.workloads.db_bench import DbBench
from tests.bench.figures import store

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "native-release" / "zlfs"
THROUGHPUT = "throughput"


def drive(result: Result, folder: Path) -> Path:
    """Return the specification of the run's drive, its contents in a new file."""
    model = folder / "model.json"
    served = drives.drive_of(result.device.model)
    assert served is not None, f"{result.device.model} is no modelled drive of this release"
    zonelab(["model", "export", served.served.rpartition("-")[0], "--output", str(model)])
    contents = folder / "contents"
    return Path(f"model:{model}?dilation={result.device.dilation}&contents={contents}")


def fill_cold(spec: RunSpec, result: Result, device: Path, aux: Path) -> None:
    """Format the drive and import the run's cold data."""
    zlfs.mkfs(device, aux=aux, label="native", policies=spec.level_options)
    assert result.utilisation is not None
    zlfs.import_cold(
        device,
        aux=aux,
        trace=aux / "trace",
        name="/cold",
        size=result.utilisation.cold_bytes,
        seed=spec.seed,
        progress=lambda _: None,
    )


def rates(spec: RunSpec, device: Path, folder: Path) -> Iterator[tuple[str, float]]:
    """Run the phases; yield operations per second of this machine's clock."""
    aux = folder / "aux"
    up = LevelUp(
        db=None,
        fs_uri=f"zlfs://{device}&aux={aux}",
        cold_dir=None,
        devices=(spec.device,),
        environment={"LD_PRELOAD": str(BUILD / "libzlfs.so")},
        mount_options="",
        database_log=aux / DB_IN_URI / "LOG",
        records=(),
    )
    for index, phase in enumerate(spec.phases):
        report = DbBench().report(up, folder / "report.csv", folder / "stderr")
        call = load_program.Invocation(
            phase,
            up,
            seed(spec.seed, spec.phases, phase),
            first=index == 0,
            program=proc.which("db_bench") or Path("db_bench"),
            report=report,
        )
        argv, environment = DbBench().argv(call), os.environ | up.environment
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment)
        parsed = DbBench().parse(phase, done.stdout, done.stderr)
        yield phase.name, load_program.metrics(phase, parsed)[THROUGHPUT].value


def main() -> None:
    run = Path(sys.argv[1])
    spec, result = load_spec(run), load_result(run)
    rows = []
    with tempfile.TemporaryDirectory(prefix="zonelab-native-") as name:
        folder = Path(name)
        # As they are installed: the program and the plug-in in one folder.
        for file in (BUILD / "tool" / "zlfs", BUILD / "libzlfs.so"):
            (folder / file.name).symlink_to(file)
        os.environ["ZONELAB_NATIVE"] = str(folder)
        (folder / "aux").mkdir()
        device = drive(result, folder)
        fill_cold(spec, result, device, folder / "aux")
        for phase, native in rates(spec, device, folder):
            key = f"{phase}.{THROUGHPUT}"
            rig = result.metrics[key].value if key in result.metrics else None
            dilation = result.device.dilation
            row = {"phase": phase, "native": native * dilation, "rig": None, "ratio": None}
            if rig is not None:
                row |= {"rig": rig * dilation, "ratio": native / rig}
            rows.append(row)
            print(json.dumps(row), flush=True)  # noqa: T201
    store("native_drive", {"run": spec.run, "phases": rows})


main()
