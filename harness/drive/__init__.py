"""A drive before a campaign: its namespaces, its health, its preconditioning."""
