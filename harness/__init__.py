"""zonelab measures how RocksDB should use a zoned (ZNS) SSD."""

__version__ = "0.1.0"
