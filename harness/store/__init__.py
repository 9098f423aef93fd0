"""Results on disk: records, strict JSON, atomic run directories, checksums."""
