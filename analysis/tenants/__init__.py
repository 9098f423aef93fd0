"""Several tenants on one drive: what each loses, whose events coincide, fairness of sharing."""
