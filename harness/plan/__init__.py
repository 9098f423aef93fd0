"""From a study, a workload and an inspection to runs: models, derivation, prediction, plan."""
