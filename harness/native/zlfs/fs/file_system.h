// RocksDB's FileSystem over a mounted volume and an auxiliary directory.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/file_system.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// Makes the directory and those above it, unless they exist.
IOStatus MakePath(const std::string& path);

// "zlfs://dev:nvme0n2?option=value&…": opens the device, mounts it, and gives the file system. An
// emulated device that is blank is formatted first. Errors name what is wrong (docs/zlfs.md).
rocksdb::IOStatus OpenFileSystem(const std::string& uri,
                                 std::unique_ptr<rocksdb::FileSystem>* file_system);

// The same for a device that was opened for writing, with the options that are not the device's.
rocksdb::IOStatus OpenFileSystem(std::unique_ptr<ZonedDevice> device, OptionMap options,
                                 std::unique_ptr<rocksdb::FileSystem>* file_system);

}  // namespace zlfs
