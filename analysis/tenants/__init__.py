"""Several tenants on one drive: who loses how much, who causes it, is the sharing fair?"""
