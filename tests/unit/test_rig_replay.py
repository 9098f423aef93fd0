"""``zonelab rig replay``: what starts, what is refused, what counts as a difference."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import ToolFailed, ZonelabError
from harness.plan import drive_files
from harness.rig import guest, model, qemu
from harness.rig.recipe import Image, image_of, recipe_of
from harness.rig.replay import differences, elf, machine, payload, planned
from harness.rig.replay.cpio import Entry, archive
from harness.rig.talk import Talk
from harness.store.campaign import load_plan
from harness.store.files import dumps
from harness.store.numbers_version import NUMBERS
from harness.store.result import Status
from harness.store.rundir import load_result, load_spec
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import write_campaign

HOST, RUN = "rig-timed-1", "zlfs--r01"
RIG = model.load("timed-1")
SERVED = f"zoneblk {drive_files.served_name(RIG.zoneblk[0].load())} -35000ns x256"


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A synthetic run of the first machine of the timed rig."""
    folder = write_campaign(
        tmp_path / "c",
        levels=("zlfs", "f2fs"),
        repetitions=1,
        kind=DeviceKind.MODELLED,
        hosts=(HOST,),
        metrics=("overwrite.throughput",),
        change=lambda result: replace(result, manifest={"host": {"numbers": NUMBERS}}),
    )
    serial = f'"model.{RIG.zoneblk[0].uuid}"'
    for path in folder.rglob("*.json"):
        rewrite(
            path,
            lambda text: text.replace('"Synthetic ZNS"', f'"{SERVED}"').replace(
                '"synthetic"', serial
            ),
        )
    return folder / "hosts" / HOST / "runs" / RUN


# --- the run -----------------------------------------------------------------------------------


def test_a_run_is_found_with_its_rig_and_its_record(run: Path) -> None:
    found = planned.find(run)
    assert (found.rig, found.host, found.spec.run) == (RIG, HOST, RUN)
    assert found.recorded == load_result(run)


def test_a_run_without_record_and_another_attempt_are_found_too(run: Path) -> None:
    second = run.with_name(f"{RUN}.a2")
    run.rename(second)
    assert planned.find(run).recorded is None
    spec = replace(load_spec(second), run=second.name, attempt=2)
    (second / "run.json").write_text(dumps(spec))
    assert planned.find(second).spec.run == RUN


def moved_out(run: Path) -> Path:
    return run.rename(run.parents[4] / RUN)


def unplanned(run: Path) -> Path:
    return run.with_name("btrfs--r01")


def emulated(run: Path) -> Path:
    plan = run.parents[3] / "plan.json"
    rewrite(plan, lambda text: text.replace('"modelled"', '"emulated"'))
    return run


def other_model(run: Path) -> Path:
    plan = run.parents[3] / "plan.json"
    rewrite(plan, lambda text: text.replace("-35000ns", "-34000ns"))
    return run


def other_drive(run: Path) -> Path:
    plan = run.parents[3] / "plan.json"
    rewrite(plan, lambda text: text.replace(RIG.zoneblk[0].uuid, "hidden"))
    return run


def edited(run: Path) -> Path:
    spec = load_spec(run)
    (run / "run.json").write_text(dumps(replace(spec, seed=spec.seed + 1)))
    return run


def skipped(run: Path) -> Path:
    (run / "result.json").write_text(dumps(replace(load_result(run), status=Status.SKIPPED)))
    return run


def of_another_version(run: Path) -> Path:
    manifest = {"host": {"numbers": NUMBERS + 1}}
    (run / "result.json").write_text(dumps(replace(load_result(run), manifest=manifest)))
    return run


@pytest.mark.parametrize(
    ("change", "code", "exit_code"),
    [
        (moved_out, "no-run", 2),
        (unplanned, "no-run", 2),
        (emulated, "not-modelled", 2),
        (other_model, "drive-changed", 2),
        (other_drive, "drive-changed", 2),
        (edited, "run-differs", 2),
        (skipped, "skipped", 2),
        (of_another_version, "numbers", 2),
    ],
)
def test_what_cannot_be_replayed_is_refused(
    run: Path, change: Callable[[Path], Path], code: str, exit_code: int
) -> None:
    with pytest.raises(ZonelabError) as refused:
        planned.find(change(run))
    assert (refused.value.code, refused.value.exit_code) == (code, exit_code)
    assert refused.value.hint


def test_a_drive_behind_a_namespace_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drives = tuple(drive.model_copy(update={"nvme": True}) for drive in RIG.zoneblk)
    rig = RIG.model_copy(update={"zoneblk": drives})
    monkeypatch.setattr(model, "load", lambda _: rig)
    with pytest.raises(ZonelabError) as refused:
        planned.find(run)
    assert refused.value.code == "not-replayable"


def test_a_rig_without_an_image_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ZonelabError, match="image of rig timed-1 is not built") as refused:
        machine.prepare(planned.find(run))
    assert refused.value.hint == "zonelab rig build timed-1"


# --- the guest ---------------------------------------------------------------------------------


def test_the_machine_has_no_device_with_a_time_of_its_own() -> None:
    argv = qemu.replay_argv(RIG, Image(Path("/c,d")))
    options = list(pairwise(argv))
    devices = [value for name, value in options if name == "-device"]
    assert devices == ["nvdimm,memdev=root", "nvdimm,memdev=results"]
    assert not {"-drive", "-netdev", "-qmp", "-fw_cfg"} & set(argv)
    assert {("-nic", "none"), ("-icount", "shift=0,sleep=off"), ("-seed", "1")} <= set(options)
    assert ("-rtc", "base=2026-01-01,clock=vm") in options
    (root,) = [value for name, value in options if name == "-object" and "id=root" in value]
    assert "mem-path=/c,,d/root.img," in root, "commas are doubled for QEMU"
    assert root.endswith(",share=off,reserve=off"), "the image is common to all replays"
    words = dict(options)["-append"].split()
    assert {
        "rdinit=/replay/init.sh",
        "idle=poll",
        "nokaslr",
        "zonelab.dilation=256",
        *RIG.append,
    } <= set(words)
    assert not any(word.startswith("root=") for word in words)


def test_an_archive_depends_on_names_and_contents_alone() -> None:
    files = {"b/c": Entry(b"x" * 5, executable=True), "a": Entry(b"")}
    text = archive(files)
    assert text == archive(dict(reversed(files.items())))
    assert len(text) % 4 == 0
    found = {}
    while text:
        fields = [int(text[at : at + 8], 16) for at in range(6, 110, 8)]
        size, length = fields[6], fields[11]
        name = text[110 : 109 + length].decode()
        begin = -(-(110 + length) // 4) * 4
        found[name] = (oct(fields[1]), fields[5], text[begin : begin + size])
        text = text[begin + -(-size // 4) * 4 :]
    assert found == {
        "a": ("0o100644", 0, b""),
        "b": ("0o40755", 0, b""),
        "b/c": ("0o100755", 0, b"xxxxx"),
        "TRAILER!!!": ("0o0", 0, b""),
    }
    assert list(found) == ["a", "b", "b/c", "TRAILER!!!"]


def test_the_busy_program_runs_when_nothing_else_does(tmp_path: Path) -> None:
    program = tmp_path / "busy"
    program.write_bytes(elf.busy_program())
    program.chmod(0o755)
    with subprocess.Popen([program]) as child:
        try:
            deadline = time.monotonic() + 10
            while os.sched_getscheduler(child.pid) != os.SCHED_IDLE:
                assert time.monotonic() < deadline
            time.sleep(0.05)
            assert child.poll() is None
        finally:
            child.kill()


def test_the_clock_library_stops_the_clock_of_a_program_and_nothing_else(tmp_path: Path) -> None:
    library = tmp_path / "clock.so"
    library.write_bytes(elf.clock_library())
    script = "import ctypes, time; t = (ctypes.c_long * 2)(5, 5); " + (
        "print(ctypes.CDLL(None).gettimeofday(t, None), *t, time.monotonic() > 0)"
    )
    env = {**os.environ, "LD_PRELOAD": str(library)}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["0", "0", "0", "True"], "")


def test_the_guest_gets_the_drives_and_the_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Entry] = {}
    monkeypatch.setattr(payload, "archive", lambda files: kept.update(files) or b"ours")
    image = Image(tmp_path)
    image.initrd.write_bytes(b"image")
    assert payload.initrd(planned.find(run), image) == b"imageours"
    here = "replay/root/replay"
    zoned, plain = kept[f"{here}/drives"].content.decode().splitlines()
    assert zoned == (
        f"zoneblk-0 --uuid {RIG.zoneblk[0].uuid} --dilation 256 --overhead {RIG.overhead} "
        f"--wakeup {RIG.wakeup} --realtime"
    )
    assert plain.startswith("zoneblk-1 ")
    assert plain.endswith(" --conventional")
    served = json.loads(kept[f"{here}/zoneblk-0.json"].content)
    assert served == drive_files.program_input(RIG.zoneblk[0].load())
    plan = "/var/lib/zonelab/campaigns/c/plan.json"
    assert kept[f"{here}/run.sh"].content.decode() == (
        f"python3 /usr/local/lib/zonelab/zonelab.pyz run --plan {plan} --host {HOST} "
        f"--state-dir /var/lib/zonelab --runtime-dir /run/zonelab --only {RUN}\n"
    )
    assert kept[f"replay/root{plan}"].content == (run.parents[3] / "plan.json").read_bytes()
    prepared = kept[f"{here}/prepare.sh"].content
    assert b"dirty_expire_centisecs=768000 vm.dirty_writeback_centisecs=128000" in prepared
    assert b"xfssyncd_centisecs=720000" in prepared  # the kernel's limit
    assert "xfssyncd_centisecs=6000" in guest.preparation(RIG.model_copy(update={"dilation": 2}))
    for script in ("replay/init.sh", f"{here}/main.sh", "replay/busy"):
        assert kept[script].executable


def test_qemu_runs_with_the_clock_library_or_fails(tmp_path: Path) -> None:
    def execute(script: str) -> None:
        machine._execute(["sh", "-c", script], tmp_path, Talk(quiet=True))

    execute("grep -q clock.so /proc/self/maps")
    with pytest.raises(ToolFailed, match="QEMU failed: no memory"):
        execute("echo no memory >&2; exit 1")
    with pytest.raises(ToolFailed, match="cannot be preloaded"):
        execute("echo 'ld.so: object from LD_PRELOAD cannot be preloaded: ignored.' >&2")


# --- comparing ---------------------------------------------------------------------------------


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


SERIES = "x--r01/series/zones.csv"
FILES = {
    "replay.json": b"{}",
    "console.log": b"one\ntwo\n",
    SERIES: b"t,empty\n1.5,3\n2.5,4\n",
    "x--r01/raw/trace": b"\0\1\2",
    "x--r01/result.json": b"{}",
    "x--r01/SHA256SUMS": b"",
}


def pair(tmp_path: Path, **changed: bytes | None) -> list[differences.DifferingFile]:
    names = {name.rpartition("/")[2].partition(".")[0]: name for name in FILES}
    other = FILES | {names[key]: content for key, content in changed.items()}
    first = write(tmp_path / "1", FILES)
    second = write(tmp_path / "2", {k: v for k, v in other.items() if v is not None})
    return differences.differences(first, second)


def test_equal_replays_have_no_difference_whatever_their_records_say(tmp_path: Path) -> None:
    assert pair(tmp_path, replay=b"{1}", SHA256SUMS=b"other") == []
    assert differences.names(tmp_path / "1") == sorted([*list(FILES)[1:-1]])


def test_a_compressed_file_equals_the_same_file_without_compression(tmp_path: Path) -> None:
    write(tmp_path / "2", {f"{SERIES}.xz": lzma.compress(FILES[SERIES])})
    assert pair(tmp_path, zones=None) == []
    write(tmp_path / "2", {f"{SERIES}.xz": lzma.compress(b"t,empty\n1.5,3\n2.5,5\n")})
    (found,) = differences.differences(tmp_path / "1", tmp_path / "2")
    assert (found.file, found.where, found.t) == (SERIES, "line 3", 2.5)


def test_the_earliest_row_of_a_series_is_first(tmp_path: Path) -> None:
    found = pair(tmp_path, zones=b"t,empty\n1.5,3\n2.5,4\n3.5,4\n", console=b"one\nthree\n")
    assert [(one.file, one.where, one.t) for one in found] == [
        (SERIES, "line 4", 3.5),
        ("console.log", "line 2", None),
    ]
    assert (found[1].first, found[1].second) == ("two", "three")


@pytest.mark.parametrize(
    ("changed", "where", "first", "second"),
    [
        ({"trace": b"\0\1\3"}, "byte 2", "02", "03"),
        ({"trace": b"\0\1\2\4"}, "byte 3", "", "04"),
        ({"console": b"one\ntwo\n\xff"}, "line 3", "", "�"),
        ({"console": b"one\ntwo"}, "byte 7", "0a", ""),
        ({"result": None}, "the file", "there", "missing"),
        ({"result": b""}, "line 1", "{}", ""),
    ],
)
def test_every_byte_counts(
    tmp_path: Path, changed: dict[str, bytes | None], where: str, first: str, second: str
) -> None:
    (found,) = pair(tmp_path, **changed)
    assert (found.where, found.first, found.second) == (where, first, second)


# --- the command -------------------------------------------------------------------------------


@pytest.fixture
def replayed(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Call the command with a machine that writes ``contents``, one for each replay."""
    contents: list[str] = []
    inputs = ["same"]

    def prepare(found: planned.PlannedRun) -> machine.Prepared:
        return machine.Prepared(found, image_of(recipe_of(RIG)), b"", inputs[0])

    def execute(_argv: list[str], work: Path, _talk: object) -> None:
        (work / "console.log").write_text(contents.pop(0))

    def unpack(work: Path, found: planned.PlannedRun) -> None:
        (work / found.spec.run).mkdir()
        (work / found.spec.run / "result.json").write_bytes((run / "result.json").read_bytes())

    monkeypatch.setattr(machine, "prepare", prepare)
    monkeypatch.setattr(machine, "_execute", execute)
    monkeypatch.setattr(machine, "_unpack", unpack)

    def call(*words: str, writes: str, start: str = "same") -> int:
        contents[:] = writes.split()
        inputs[0] = start
        code = main(["rig", "replay", str(run), "--output", str(tmp_path / "out"), *words])
        assert not contents, "as many replays as expected"
        return code

    return call


def test_the_first_call_replays_twice_and_a_later_one_once(
    replayed: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert replayed(writes="a a") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"identical: 2 files of {out}/1 and {out}/2; the run is ok\n")
    assert "overwrite.throughput" in printed, "beside the recorded run"
    assert replayed(writes="b") == 4
    printed = capsys.readouterr().out
    assert printed.startswith("different: 1 of 2 files, first console.log, line 1; the run is ok\n")
    assert sorted(path.name for path in out.iterdir()) == ["1", "2", "3", "lock"]


def test_replays_of_other_inputs_are_not_compared(replayed: Callable[..., int]) -> None:
    assert replayed(writes="a a") == 0
    assert replayed(writes="b b", start="other") == 0
    assert replayed(writes="a") == 0


def test_one_replay_is_no_verdict(
    replayed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed("--once", "--format", "json", writes="a") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["verdict"], len(facts["replays"])) == ("first", 1)
    assert replayed("--once", "--format", "json", writes="a") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["verdict"], len(facts["replays"]), facts["differences"]) == ("identical", 2, [])
    assert facts["recorded"][0]["change"] == "+0.0 %"


def test_a_guest_that_wrote_no_run_fails_with_its_last_lines(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", hosts=(HOST,), levels=("zlfs",), repetitions=1)
    plan = load_plan(folder / "plan.json")
    spec = plan.hosts[0].runs[0]
    found = planned.PlannedRun(folder / "plan.json", plan, HOST, spec, RIG, None)
    write(tmp_path, {qemu.REPLAY_RESULTS: bytes(1 << 20), qemu.CONSOLE: b"no root\npower down\n"})
    with pytest.raises(ToolFailed, match=r"wrote no run.*no root \| power down"):
        machine._unpack(tmp_path, found)
