"""Rules about the kernel log, on messages of real kernels.

The messages come from bug reports, mailing lists and vendors' knowledge bases of Linux 3.x to 7.x;
those marked "source" are formatted from the kernel's own format string.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.observe import kmsg
from harness.rules import judge
from harness.rules.facts import RunFacts
from harness.store.result import Issue, Severity
from harness.store.spec import NATIVE, DeviceKind
from tests.fixtures.run_facts import good_run

IO, WRITE, ZONES = "io-errors", "kernel-write-failed", "active-zones-exceeded"
OOPS, LOCKUP, HUNG = "kernel-oops", "kernel-lockup", "hung-task"
MCE, HOT = "machine-check", "cpu-throttled"
LIMITS = {ZONES, "open-zones-exceeded"}
# Issues of a device. The others are of the machine.
OF_DEVICE = {IO, WRITE, *LIMITS}

MESSAGES = [
    # NVMe
    (IO, "nvme0c0n1: I/O Cmd(0x1) @ LBA 218630656, 256 blocks, I/O Error (sct 0x0 / sc 0x4) DNR"),
    (IO, "I/O error, dev nvme0c0n1, sector 218630656 op 0x1:(WRITE) flags 0x2008800 phys_seg 17"),
    (IO, "nvme0n2: I/O Cmd(0x1) @ LBA 4295251447, 64 blocks, I/O Error (sct 0x0 / sc 0x4) "),
    (IO, "protection error, dev nvme2n1, sector 16 op 0x1:(WRITE) flags 0x10800 phys_seg 1"),
    (IO, "critical medium error, dev nvme0n1, sector 4096 op 0x1:(WRITE) flags 0x800 phys_seg 1"),
    (IO, "nvme nvme0: I/O 416 QID 1 timeout, aborting"),
    (IO, "nvme nvme0: I/O tag 641 (c281) opcode 0x1 (I/O Cmd) QID 8 timeout, reset controller"),
    (IO, "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"),
    (IO, "nvme nvme0: Device not ready; aborting reset, CSTS=0x1"),
    (IO, "nvme nvme0: Removing after probe failure status: -19"),
    (IO, "nvme nvme0: Disabling device after reset failure: -19"),
    (IO, "nvme nvme0: resetting controller due to persistent internal error"),
    (IO, "nvme nvme1: frozen state error detected, reset controller"),
    (IO, "nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction"),
    # SCSI and ATA
    (IO, "critical target error, dev sdg, sector 6274678784 op 0x7:(ZONE_APPEND) flags 0x104000"),
    (IO, "sd 8:0:0:0: [sdg] tag#8 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=31s"),
    (IO, "ata9.00: exception Emask 0x0 SAct 0x600000 SErr 0x0 action 0x6 frozen"),
    (IO, "ata9.00: failed command: WRITE FPDMA QUEUED"),
    (IO, "sd 0:0:1:0: rejecting I/O to offline device"),
    (IO, "scsi 13:0:0:0: rejecting I/O to dead device"),
    (IO, "blk_update_request: I/O error, dev sdd, sector 0 op 0x1:(WRITE) flags 0x0 phys_seg 2"),
    (IO, "print_req_error: I/O error, dev vda, sector 1859136 flags 100001"),
    # File systems
    (IO, "Buffer I/O error on device nvme0n1p1, logical block 1066386"),
    (IO, "EXT4-fs error (device sdm): ext4_discard_preallocations:5001: comm prometheus: Error -5"),
    (IO, "EXT4-fs warning (device dm-4): ext4_end_bio:343: I/O error 10 writing to inode 1182507"),
    (IO, "JBD2: Error -5 detected when updating journal superblock for sdk-8."),
    (IO, "JBD2: Detected IO errors while flushing file data on vda1-8"),
    (IO, "Aborting journal on device nvme0n1p1-8."),
    (IO, 'XFS (dm-0): metadata I/O error in "xfs_trans_read_buf_map" at daddr 0x780002 len 1'),
    (IO, "XFS (dm-0): log I/O error -5"),
    (
        IO,
        "BTRFS error (device nvme0n1p3): bad tree block start, want 1048576 have 6267530653245814",
    ),
    (
        IO,
        "BTRFS: error (device nvme0n1p3: state A) in __btrfs_free_extent:3053: errno=-28 No space",
    ),
    # Failed writes
    (WRITE, "device-mapper: zap: (nvme0n2): write failed! bi_status 10"),  # source
    (WRITE, "Buffer I/O error on dev sdb, logical block 0, lost async page write"),
    (WRITE, "Buffer I/O error on dev sdk, logical block 262144, lost sync page write"),
    (WRITE, "XFS (dm-0): writeback error on sector 1107550672"),
    (
        WRITE,
        "BTRFS error (device sdg: state EA): bdev /dev/sdg errs: wr 1, rd 0, flush 0, corrupt 0",
    ),
    (WRITE, "Write-error on swap-device (254:1:39256632)"),
    # Zone limits
    (
        ZONES,
        "active zones exceeded error, dev nvme0n2, sector 0 op 0x1:(WRITE) flags 0x0",
    ),  # source
    ("open-zones-exceeded", "open zones exceeded error, dev nvme0n2, sector 0 op 0x1:(WRITE)"),
    # The kernel itself
    (OOPS, "BUG: kernel NULL pointer dereference, address: 000000000000000b"),
    (OOPS, "BUG: unable to handle kernel paging request at ffff8821a7674960"),
    (OOPS, "Oops: 0002 [#1] SMP NOPTI"),
    (OOPS, "general protection fault: 0000 [#1] PREEMPT SMP"),
    (OOPS, "general protection fault, probably for non-canonical address 0xdead000000000122: 0000"),
    (OOPS, "kernel BUG at fs/f2fs/segment.c:2560!"),
    (OOPS, "Internal error: Oops: 96000004 [#1] PREEMPT SMP"),
    (OOPS, "Unable to handle kernel paging request at virtual address ffff000008effe40"),
    (OOPS, "Kernel panic - not syncing: softlockup: hung tasks"),
    (LOCKUP, "watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [kworker/2:1:25629]"),
    (LOCKUP, "NMI watchdog: BUG: soft lockup - CPU#2 stuck for 22s! [SimpleCacheWork:8140]"),
    (LOCKUP, "watchdog: Watchdog detected hard LOCKUP on cpu 3"),
    (LOCKUP, "rcu: INFO: rcu_sched self-detected stall on CPU"),
    (LOCKUP, "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
    (LOCKUP, "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 0-... } 6 jiffies"),
    (LOCKUP, "rcu: rcu_sched kthread starved for 14983 jiffies! g2629 f0x0 RCU_GP_WAIT_FQS(5)"),
    (LOCKUP, "BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 34s!"),
    (HUNG, "INFO: task kworker/u8:0:5 blocked for more than 120 seconds."),
    (HUNG, "INFO: task kworker/u48:7:1511 blocked for more than 122 seconds."),
    # The processor
    (MCE, "mce: [Hardware Error]: Machine check events logged"),
    (MCE, "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 4: a600000000020408"),
    (
        MCE,
        "EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0)",
    ),
    (MCE, "EDAC sbridge MC1: HANDLING MCE MEMORY ERROR"),
    (MCE, "[Hardware Error]: Corrected error, no action required."),
    (MCE, "mce: CMCI storm detected: switching to poll mode"),
    (MCE, "mce: Uncorrected hardware memory error in user-access at 8a398a400"),
    (MCE, "Memory failure: 0x8a398a: recovery action for dirty LRU page: Recovered"),
    (HOT, "mce: CPU6: Package temperature above threshold, cpu clock throttled (total events = 1)"),
    (HOT, "CPU0: Core temperature above threshold, cpu clock throttled (total events = 18821)"),
    (HOT, "CPU9: Core power limit notification (total events = 1)"),
    (HOT, "thermal thermal_zone4: critical temperature reached (128 C), shutting down"),
]
HARMLESS = [
    "nvme nvme0: pci function 10000:e1:00.0",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "nvme nvme0: Shutdown timeout set to 8 seconds",
    "nvme nvme0: Ignoring bogus Namespace Identifiers",
    "operation not supported error, dev nvme0n2, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8000800",
    "F2FS-fs (nvme0n2): f2fs_recover_fsync_data: recovery fsync data, check_only: 0",
    "F2FS-fs (nvme0n2): Mounted with checkpoint version = 57a8c79",
    "EXT4-fs (nvme0n2): mounted filesystem fa75d31d-1efd-4e80-8493-89c016ec6891 r/w",
    "EXT4-fs (nvme0n2): Supports (experimental) DIO atomic writes awu_min: 4096, awu_max: 4096",
    "XFS (dm-0): Ending clean mount",
    "device-mapper: zoned metadata: (nvme0n2): Host-managed zoned block device",
    "BTRFS info (device nvme0n2): disk space caching is enabled",
    "traps: db_bench[1234] general protection fault ip:7fd4 sp:7ffc error:0 in libc.so.6",
    "mce: CPU supports 7 MCE banks",
    "mce: Using 22 MCE banks",
    "CPU0: Core temperature/speed normal",
    "CPU6: Core power limit normal",
    "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
    '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    "driver: DEBUG: a line of a driver under development",  # made up
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate",
]


@pytest.fixture
def run(tmp_path: Path) -> RunFacts:
    return good_run(tmp_path)


def issues(run: RunFacts, lines: list[str], devices: set[str]) -> list[Issue]:
    log = "".join(f"12.345678 {line}\n" for line in lines)
    log += f"# devices of the run: {' '.join(sorted(devices))}\n"
    return list(judge(replace(run, kernel_log=log)))


def hardware(run: RunFacts) -> RunFacts:
    device = replace(run.spec.device, kind=DeviceKind.HARDWARE)
    return replace(run, spec=replace(run.spec, device=device))


@pytest.mark.parametrize(("code", "line"), MESSAGES)
def test_a_message_is_an_issue_if_it_concerns_the_run(run: RunFacts, code: str, line: str) -> None:
    named = set(kmsg.names_in(line))
    assert bool(named) == (code in OF_DEVICE)
    (found,) = issues(run, [line], named)
    assert (found.code, found.actual) == (code, None if code in LIMITS else 1)
    assert code in LIMITS or line.strip() in found.message
    of_others = [issue.code for issue in issues(run, [line], {"nvme9n9", "nvme9", "dm-99"})]
    assert of_others == ([] if code in OF_DEVICE else [code])


@pytest.mark.parametrize(
    "line",
    ["md: super_written gets error=-5", "loop: Write error at byte offset 9178112, length 1024."],
)
def test_an_error_that_names_no_device_counts(run: RunFacts, line: str) -> None:
    (found,) = issues(run, [line], {"nvme0n2"})
    assert found.code == WRITE


def test_an_old_run_that_recorded_no_devices_is_judged_by_all_lines(run: RunFacts) -> None:
    for code, line in MESSAGES:
        found = judge(replace(run, kernel_log=f"12.345678 {line}\n"))
        assert [issue.code for issue in found] == [code], line


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_messages(run: RunFacts, line: str) -> None:
    assert issues(run, [line], {"nvme0n2", "nvme0", "dm-0"}) == []


def test_lines_of_a_kind_are_one_issue(run: RunFacts) -> None:
    lines = [line for code, line in MESSAGES if code == IO]
    devices = {name for line in lines for name in kmsg.names_in(line)}
    (found,) = issues(run, [*lines, *HARMLESS], devices)
    assert (found.code, found.expected, found.actual) == (IO, 0, len(lines))
    assert lines[0] in found.message


def test_statuses_of_zone_limits_without_their_names(run: RunFacts) -> None:
    # Linux without CONFIG_NVME_VERBOSE_ERRORS, in a rig.
    line = "nvme0n2: I/O Cmd(0x1) @ LBA 0, 8 blocks, I/O Error (sct 0x1 / sc 0x{}) MORE DNR"
    for status, name in (("bd", "active"), ("be", "open")):
        codes = [issue.code for issue in issues(run, [line.format(status)], {"nvme0n2"})]
        assert codes == [IO, f"{name}-zones-exceeded"]
    assert [issue.code for issue in issues(run, [line.format("bc")], {"nvme0n2"})] == [IO]


@pytest.mark.parametrize("code", [LOCKUP, HUNG])
def test_a_stall_of_an_emulated_machine_is_a_warning(run: RunFacts, code: str) -> None:
    line = next(line for kind, line in MESSAGES if kind == code)
    assert run.spec.device.kind is DeviceKind.EMULATED
    (found,) = issues(run, [line], set())
    assert (found.code, found.severity) == (code, Severity.WARNING)
    severities = {issue.code: issue.severity for issue in issues(hardware(run), [line], set())}
    assert severities[code] is Severity.ERROR


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        (["mce: [Hardware Error]: Machine check events logged"], Severity.WARNING),
        (
            [
                "mce: [Hardware Error]: Machine check events logged",
                "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#2_DIMM#0",
            ],
            Severity.ERROR,
        ),
        (
            ["mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: b200000000070f0f"],
            Severity.ERROR,
        ),
        (["{1}[Hardware Error]: event severity: corrected"], Severity.WARNING),
        (["{1}[Hardware Error]: event severity: recoverable"], Severity.ERROR),
        (["{1}[Hardware Error]: event severity: fatal"], Severity.ERROR),
        (["[Hardware Error]: Corrected error, no action required."], Severity.WARNING),
        (["[Hardware Error]: Uncorrected, software restartable error."], Severity.ERROR),
        (["[Hardware Error]: System Fatal error."], Severity.ERROR),
        (["Memory failure: 0x8a398a: already hardware poisoned"], Severity.ERROR),
    ],
)
def test_corrected_machine_checks_are_warnings(
    run: RunFacts, lines: list[str], severity: Severity
) -> None:
    (found,) = issues(run, lines, set())
    assert found.severity is severity
    assert lines[-1] in found.message  # the uncorrected one, if there is any


def test_faults_of_kernel_and_device_make_a_run_invalid(run: RunFacts) -> None:
    for code in (IO, WRITE, OOPS, ZONES):
        line = next(line for kind, line in MESSAGES if kind == code)
        (found,) = issues(run, [line], set(kmsg.names_in(line)))
        assert found.severity is Severity.ERROR


def test_lost_records_are_a_warning(run: RunFacts) -> None:
    log = "1.0 a\n# records lost here: 6\n2.0 b\n# records lost here: 2\n"
    device = replace(run.spec.device, kind=DeviceKind.MODELLED, model=f"{NATIVE} zones-4m")
    files = replace(run, spec=replace(run.spec, device=device))  # faults of the machine count
    for one in (run, files):
        (found,) = judge(replace(one, kernel_log=log))
        assert (found.code, found.severity) == ("kernel-log-lost", Severity.WARNING)
        assert (found.expected, found.actual) == (0, 8)


def test_a_program_cannot_invalidate_a_run(run: RunFacts) -> None:
    line = "user space: backup[7]: I/O error, dev nvme0n2, sector 0; BUG: write failed"
    assert issues(run, [line], {"nvme0n2"}) == []
