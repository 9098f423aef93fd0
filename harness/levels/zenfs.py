"""zenfs: the RocksDB plug-in, built by the user (roles/zenfs links the files)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.errors import HostError, ToolFailed
from harness.levels import zenfs_programs
from harness.levels.bring_up import bring_up
from harness.levels.level import (
    AUX,
    DB_IN_URI,
    FillCallback,
    Level,
    LevelContext,
    LevelKind,
    LevelUp,
    LevelUsage,
    Needs,
    Question,
)
from harness.levels.options import FINISH, Option, Switch, finish_remaining_pct, is_on
from harness.observe.signatures import Probe
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import Device, Reason, Scalar
from harness.tools import coldfill, db_bench, proc, zenfs, zone_reset
from harness.tools.direct_io import DirectIo
from harness.tools.kernel import Kernel

_COLD = "cold"
# Cold data is a second database, filled in order and then unchanged. Bytes of an entry in a table:
# key, value, sequence number, lengths, and its part of block trailer and index.
_COLD_KEY, _COLD_VALUE, _COLD_EXTRA = 16, 8000, 70
_NEVER = 1 << 30  # files in level 0 before writers would wait
# Bytes, and data zones: ``dump`` does not list metadata zones.
_DF_COLUMNS = ("free", "used", "reclaimable")
_DUMP_COLUMNS = ("free", "live", "garbage", "zones_empty", "zones_full", "files")

# A record's header (checksum, length), then the superblock: magic, UUID of 37 bytes, six numbers,
# and the auxiliary path, whose last folder is the label. ZenFS has three metadata zones. Other
# versions of ZenFS have the magic elsewhere.
SIGNATURE = Probe(
    "zenfs",
    8,
    b"FNEZ",
    8 + 4 + 37 + 6 * 4,
    256,
    zones=3,
    anywhere=(b"ZENF", b"FNEZ"),
)


class ZenFs(Level):
    """``zenfs mkfs``, then ``db_bench --fs_uri=zenfs://dev:<name>``."""

    name: ClassVar[str] = "zenfs"
    summary: ClassVar[str] = "RocksDB on the zones themselves, through upstream's ZenFS"
    kind: ClassVar[LevelKind] = LevelKind.APPLICATION
    needs: ClassVar[Needs] = Needs(
        zenfs.MIN_ZONES,
        3,
        "ZenFS refuses fewer than 32 zones; it uses two active zones itself",
    )
    schedulers: ClassVar[tuple[str, ...]] = (zenfs.SCHEDULER,)
    owns: ClassVar[tuple[str, ...]] = ("manifest.level.program",)
    metadata_zones: ClassVar[int] = zenfs.METADATA_ZONES
    signatures: ClassVar[tuple[Probe, ...]] = (SIGNATURE,)
    issues: ClassVar[tuple[IssueInfo, ...]] = (
        IssueInfo(
            "own-db-bench",
            (Severity.WARNING,),
            "zenfs ran with a db_bench of its own",
            "its RocksDB may be another build than the other levels'",
        ),
    )
    programs: ClassVar[tuple[str, ...]] = (zenfs.PROGRAM,)
    options: ClassVar[Mapping[str, Option]] = {**FINISH, "gc": Switch()}

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or Kernel()

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:  # noqa: ARG002
        """Check the user's files, then the device."""
        try:
            zenfs.tool()
        except HostError as error:
            return Reason.of(error)
        return self.require_zones(device) or self._probe_queue(device)

    def probe_program(self, program: Path, name: str) -> Reason | None:
        """Check that the program can use ZenFS."""
        check = zenfs_programs.probe_db_bench if name == "db_bench" else zenfs_programs.probe_plugin
        return check(program)

    def caveats(self, device: Device) -> tuple[Issue, ...]:  # noqa: ARG002 - the same everywhere
        """Warn of a db_bench of its own: its RocksDB may be another build."""
        own = zenfs.find(zenfs.DB_BENCH)
        if own is None:
            return ()
        return (
            Issue(
                "own-db-bench",
                Severity.WARNING,
                "zenfs ran with its own db_bench, not with the other levels'",
                actual=str(own),
            ),
        )

    def up(self, context: LevelContext) -> LevelUp:
        """Check the scheduler, reset all zones, format; the plug-in mounts in db_bench."""
        self.check_options(context.options)
        threshold = finish_remaining_pct(context.options)
        device, aux = Path(context.device.path), context.scratch / AUX
        plugin = zenfs.find(zenfs.PLUGIN)
        # ZenFS has no labels: the superblock contains the folder's name, which serves as one.
        folder = aux / context.label
        up = LevelUp(
            fs_uri=f"zenfs://dev:{device.name}",
            devices=(context.device,),
            environment={"LD_PRELOAD": str(plugin)} if plugin else {},
            mount_options=",".join(f"{key}={value}" for key, value in context.options.items()),
            database_log=folder / DB_IN_URI / "LOG",
            program=zenfs.find(zenfs.DB_BENCH) or context.program,
        )
        self.down(up)  # remove the remains of a killed run of this name
        with bring_up(self, context, up):
            self._require_scheduler(device.name)
            aux.mkdir(parents=True)
            context.check_devices()
            zone_reset.reset_all(device, context.device.size)
            gc = is_on(context.options.get("gc", False))
            zenfs.mkfs(device.name, aux=folder, finish_threshold=threshold, gc=gc)
            facts = {
                "finish_remaining_pct": threshold,
                "finish_occupancy_pct": 100 - threshold,
                **zenfs_programs.builds(),
                **zenfs_programs.versions(device.name),
            }
        return replace(up, facts=facts)

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: FillCallback) -> int:
        """Fill a second database in order, and never touch it again; return its tables' bytes."""
        if up.program is None:
            raise ToolFailed("no db_bench to write cold data with", code="program-missing")
        entries = size // (_COLD_KEY + _COLD_VALUE + _COLD_EXTRA)
        if entries == 0:
            return 0
        done = 0

        def on_line(line: str) -> None:
            nonlocal done
            done += db_bench.operations_in(line)
            progress(min(size, done * size // entries), size)

        ended = proc.stream(
            db_bench.argv(up.program, cold_flags(up.fs_uri or "", entries, seed)),
            on_line,
            timeout=coldfill.timeout(size),
            env=up.environment,
        )
        if not ended.ok:
            raise proc.failure(ended)
        return _bytes_under(zenfs.dump(up.devices[0].name).files, _COLD)

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return free bytes and garbage from ``dump``; ZenFS does not count what its GC moves."""
        name = up.devices[0].name
        dump = zenfs.dump(name)
        raw = {**zenfs.df(name), "garbage_bytes": dump.garbage_bytes, "zones": len(dump.zones)}
        return LevelUsage(
            free_bytes=dump.free_bytes,
            gc_events=None,
            gc_bytes=None,
            gc_source="none: zenfs df and dump count no collected zones",
            raw=raw,
        )

    def questions(self, up: LevelUp) -> tuple[Question, ...]:
        """Ask for space and zones: ZenFS prints nothing by itself."""
        tool, device = zenfs.tool(), up.devices[0].name
        df, dump = (tuple(zenfs.read_argv(tool, name, device)) for name in ("df", "dump"))
        return (
            Question("zenfs-df", df, _DF_COLUMNS, _df_row),
            Question("zenfs-dump", dump, _DUMP_COLUMNS, _dump_row),
        )

    def database_bytes(self, up: LevelUp) -> int:
        """Sum the lengths of the database's files."""
        return _bytes_under(zenfs.dump(up.devices[0].name).files, DB_IN_URI)

    def direct_io(self, up: LevelUp) -> DirectIo:  # noqa: ARG002 - the same everywhere
        """Writes always bypass the page cache; reads do where db_bench requests it."""
        return DirectIo(True, True, "ZenFS writes with O_DIRECT, and reads with it on request")

    def down(self, up: LevelUp) -> None:
        """Remove the auxiliary directory; nothing is mounted."""
        if up.database_log is not None and up.database_log.parents[2].exists():
            shutil.rmtree(up.database_log.parents[2])

    def _probe_queue(self, device: Device) -> Reason | None:
        name = device.name
        limit = self.kernel.counter("class", "block", name, "queue", "max_active_zones")
        if device.max_active_zones and not limit:
            return _hidden(device, "zone limits")
        own = self._scheduler(name)  # heads have no such file, or (Linux 6.1) one with "none"
        if own is None:
            return _hidden(device, "scheduler")
        if zenfs.SCHEDULER not in device.schedulers:  # of the head or of its path node
            return Reason(
                "scheduler-missing",
                f"ZenFS needs {zenfs.SCHEDULER}, {device.path} does not offer it",
                f"modprobe {zenfs.SCHEDULER}",
            )
        return None if zenfs.SCHEDULER in own else _hidden(device, "scheduler")

    def _scheduler(self, name: str) -> str | None:
        """Return the text of the scheduler's file, None where there is none."""
        try:
            file = self.kernel.sys("class", "block", name, "queue", "scheduler")
            return file.read_text(encoding="ascii")
        except OSError:
            return None

    def _require_scheduler(self, name: str) -> None:
        if f"[{zenfs.SCHEDULER}]" not in (self._scheduler(name) or ""):
            raise ToolFailed(
                f"the scheduler of {name} is not {zenfs.SCHEDULER}, without which ZenFS refuses it",
                hint="the planner chooses it; a study's scheduler factor must not vary it",
                code="scheduler",
            )


def cold_flags(uri: str, entries: int, seed: int) -> dict[str, Scalar]:
    """Return db_bench's flags that write cold data: no WAL, no compaction, no compression."""
    return {
        "benchmarks": "fillseq",
        "fs_uri": uri,
        "db": _COLD,
        "use_existing_db": False,
        "num": entries,
        "key_size": _COLD_KEY,
        "value_size": _COLD_VALUE,
        "compression_type": "none",
        "disable_wal": 1,
        "disable_auto_compactions": True,
        "level0_slowdown_writes_trigger": _NEVER,
        "level0_stop_writes_trigger": _NEVER,
        "use_direct_io_for_flush_and_compaction": True,
        "seed": seed,
        "stats_interval_seconds": 1,
    }


def _hidden(device: Device, what: str) -> Reason:
    return Reason(
        "multipath-head",
        f"{device.path} hides its {what} from ZenFS, because it is a head of NVMe multipath",
        "boot with nvme_core.multipath=N",
    )


def _df_row(stdout: str) -> tuple[int, ...]:
    space = zenfs.parse_df(stdout)
    return tuple(space[f"df.{column}"] for column in _DF_COLUMNS)


def _dump_row(stdout: str) -> tuple[int, ...]:
    dump = zenfs.parse_dump(stdout)
    bytes_ = (dump.free_bytes, dump.live_bytes, dump.garbage_bytes)
    return (*bytes_, dump.empty, dump.full, len(dump.files))


def _bytes_under(files: Mapping[str, int], folder: str) -> int:
    return sum(size for name, size in files.items() if name.startswith(f"/{folder}/"))
