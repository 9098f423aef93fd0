"""Workloads: db_bench phases, their argument lists and their metrics."""
