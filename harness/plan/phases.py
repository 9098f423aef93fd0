"""Phases as the runner gets them: flags, numbers of operations and checks."""

from __future__ import annotations

from harness.plan.derive import Derived
from harness.plan.operation_counts import count
from harness.plan.workload_models import Phase, Workload
from harness.store.spec import PhaseRole, PhaseSpec, Scalar
from harness.workloads.planning import Database


def phase_spec(workload: Workload, phase: Phase, derived: Derived) -> PhaseSpec:
    """Return one phase with its flags and operations; the timeout is only its lower bound yet.

    Raises:
        ConfigError: a flag is out of range, unknown or reserved, or the program refuses the phase.
    """
    database = Database(
        keys=derived.keys,
        key_size=workload.key_size,
        value_size=workload.value_size,
        sizes=_sizes(workload, derived),
        flags=workload.flags,
    )
    planned = [
        each.planned(count(each, derived.keys, derived.free_bytes, workload))
        for each in workload.phases
    ]
    spec = phase.program.derive(planned, workload.phases.index(phase), database)
    return PhaseSpec(
        name=phase.name,
        benchmark=spec.benchmark,
        role=PhaseRole(phase.role),
        flags=spec.flags,
        operations=spec.operations,
        user_bytes_per_operation=spec.user_bytes_per_operation,
        expects_gc=phase.expects_gc,
        timeout_seconds=phase.timeout,
        stall_seconds=phase.stall_timeout,
        program=phase.program.name,
    )


def _sizes(workload: Workload, derived: Derived) -> dict[str, Scalar]:
    """Return the sizes that follow from the device, as RocksDB's options."""
    return {
        "key_size": workload.key_size,
        "value_size": workload.value_size,
        "write_buffer_size": derived.write_buffer_size,
        "target_file_size_base": derived.target_file_size_base,
        "max_bytes_for_level_base": derived.max_bytes_for_level_base,
        "soft_pending_compaction_bytes_limit": derived.compaction_debt_bytes // 2,
        "hard_pending_compaction_bytes_limit": derived.compaction_debt_bytes,
    }
