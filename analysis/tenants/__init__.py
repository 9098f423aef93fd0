"""Several tenants on one drive: each one's loss, coinciding events, and fairness."""
