"""``make bench-overhead``: what the runner costs db_bench, in a rig that is up.

Alternating pairs of the same run, under the runner and by hand. They end when the 95 % interval of
the throughput ratio is at most 1 % to either side, or after PAIRS. Beside it the hard figures: the
share of CPU time that runner and observers took (cgroups), and the CPU time of the tracer's
programs in the kernel (kernel.bpf_stats_enabled). A pair's ratio is the geometric mean over the
read phases of a run. Writes build/bench/overhead.json.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import yaml
from paired import interval

ROOT = Path(__file__).parents[2]
PAIRS = int(os.environ.get("PAIRS", "20"))
HALF_WIDTH = 0.01
READS = "readrandom"  # phases of the workload whose speed is compared
GUEST = "/var/tmp/zonelab-bench"
REFUSED = 3


class Guest:
    """The rig as ssh sees it, from the inventory that ``zonelab rig exec`` names."""

    def __init__(self, inventory: Path) -> None:
        ((self.name, self.vars),) = yaml.safe_load(inventory.read_text())["all"]["hosts"].items()
        # ["-F", "…/ssh_config"]: key, port and host key of this very rig.
        self.base = shlex.split(self.vars["ansible_ssh_common_args"])

    @property
    def device(self) -> str:
        """The device that a study without a factor of its own takes: the first one."""
        return str(self.vars["device"]).partition(",")[0]

    def ssh(self, *command: str, check: bool = True) -> str:
        """Run a command on the guest; return stdout. A failure ends the benchmark."""
        argv = ["ssh", *self.base, self.vars["ansible_host"], " ".join(command)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if check and done.returncode:
            sys.exit(
                f"overhead: {' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}"
            )
        return done.stdout

    def copy(self, *files: Path) -> None:
        """Copy files into the working folder on the guest."""
        target = f"{self.vars['ansible_host']}:{GUEST}/"
        subprocess.run(["scp", "-q", *self.base, *map(str, files), target], check=True)


def plan(guest: Guest, work: Path) -> Path:
    """Plan PAIRS repetitions of the study ``overhead`` for the guest; the plan file."""
    inspection = work / "inspection.json"
    inspection.write_text(
        guest.ssh("python3", f"{GUEST}/zonelab.pyz", "inspect", guest.device, "--format json")
    )
    subprocess.run(
        [
            ROOT / ".venv/bin/zonelab",
            "plan",
            "overhead",
            f"--inspection={guest.name}={inspection}",
            "--campaign=overhead",
            f"--results={work}",
            f"--repetitions={PAIRS}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return work / "overhead/plan.json"


def under_runner(guest: Guest, run: str) -> tuple[dict[str, float], float, float, int]:
    """Execute one run of the plan; ops/s by phase, CPU of harness and of tracer, peak memory."""
    guest.ssh(
        "systemd-run --quiet --wait --pipe --collect --property=Delegate=yes -- /usr/bin/python3",
        f"{GUEST}/zonelab.pyz run --plan {GUEST}/plan.json --host {guest.name} --only {run}",
        f"--state-dir {GUEST}/state",
    )
    result = json.loads(
        guest.ssh("cat", f"{GUEST}/state/campaigns/overhead/runs/{run}/result.json")
    )
    if result["status"] != "ok":
        sys.exit(f"overhead: {run} is {result['status']}: {result['reason']} {result['issues']}")
    metrics = result["metrics"]
    return (
        {
            name.partition(".")[0]: metric["value"]
            for name, metric in metrics.items()
            if name.endswith(".throughput")
        },
        metrics["run.harness_cpu_share"]["value"],
        metrics["run.tracer_cpu_share"]["value"],
        metrics["run.harness_memory_peak"]["value"],
    )


def by_hand(guest: Guest, run: str) -> dict[str, float]:
    """Execute the same run without the runner; ops/s by phase."""
    out = guest.ssh("python3", f"{GUEST}/by_hand.py {GUEST}/zonelab.pyz {GUEST}/plan.json {run}")
    speeds: dict[str, float] = json.loads(out)
    return speeds


def log_ratio(harness: dict[str, float], hand: dict[str, float]) -> float:
    """Return the mean log ratio over the read phases; both sides have the same ones."""
    reads = sorted(name for name in hand if name.startswith(READS))
    return statistics.fmean(math.log(harness[name] / hand[name]) for name in reads)


def main() -> int:
    """Measure, write the figures, judge them."""
    guest = Guest(Path(os.environ["ANSIBLE_INVENTORY"]))
    work = ROOT / "build/bench"
    work.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "harness.pack", work / "zonelab.pyz"], check=True)
    guest.ssh("mkdir", "-p", GUEST)
    guest.ssh("sysctl", "-q", "kernel.bpf_stats_enabled=1")
    guest.copy(work / "zonelab.pyz", Path(__file__).parent / "by_hand.py")
    subprocess.run(["rm", "-rf", work / "overhead"], check=True)
    plan_file = plan(guest, work)
    guest.copy(plan_file)
    planned = json.loads(plan_file.read_text())["hosts"][0]["runs"]
    runs = [run["run"] for run in planned]
    logs: list[float] = []
    shares: list[float] = []
    tracing: list[float] = []
    peaks: list[int] = []
    ratio, low, high = 1.0, 0.0, math.inf
    for index, run in enumerate(runs):
        # Which side goes first alternates, so that a drift of the machine cancels out.
        if index % 2:
            hand = by_hand(guest, run)
            harness, share, tracer, peak = under_runner(guest, run)
        else:
            harness, share, tracer, peak = under_runner(guest, run)
            hand = by_hand(guest, run)
        logs.append(log_ratio(harness, hand))
        shares.append(share)
        tracing.append(tracer)
        peaks.append(peak)
        ratio, low, high = interval(logs)
        print(  # noqa: T201
            f"pair {index + 1}: {math.exp(logs[-1]):.4f},"
            f" ratio so far {ratio:.4f} [{low:.4f}, {high:.4f}],"
            f" CPU: harness {share:.2%}, tracer {tracer:.2%}, memory {peak / 2**20:.1f} MiB",
            flush=True,
        )
        if (high - low) / 2 <= HALF_WIDTH:
            break
    report = {
        "ratio": ratio,
        "low": low,
        "high": high,
        "n": len(logs),
        "resolved": (high - low) / 2 <= HALF_WIDTH,
        "harness_cpu_share_max": max(shares),
        "tracer_cpu_share_max": max(tracing),
        "harness_memory_peak": max(peaks),
        "how": f"{READS} throughput, under the runner / by hand; alternating pairs in one rig; "
        "paired t on log ratios",
    }
    (work / "overhead.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))  # noqa: T201
    slow = report["resolved"] and ratio < 0.98
    both = max(a + b for a, b in zip(shares, tracing, strict=True))
    dear = both > 0.02 or max(peaks) > 64 * 2**20
    return REFUSED if slow or dear else 0


if __name__ == "__main__":
    sys.exit(main())
