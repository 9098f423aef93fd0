"""zonelab: how should RocksDB sit on a zoned (ZNS) SSD, answered with evidence."""

__version__ = "0.1.0"
