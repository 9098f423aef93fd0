// Implements RocksDB's FileSystem with a mounted volume and an auxiliary directory.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/file_system.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// Creates the directory and its parents if they do not exist.
IOStatus MakePath(const std::string& path);

// Opens and mounts a device given as "zlfs://dev:nvme0n2?option=value&…". Formats a blank emulated
// device first. The table kMeanings in tool/main.cc lists the errors.
rocksdb::IOStatus OpenFileSystem(const std::string& uri,
                                 std::unique_ptr<rocksdb::FileSystem>* file_system);

// Mounts a device that is already open for writing. `options` excludes the device options.
rocksdb::IOStatus OpenFileSystem(std::unique_ptr<ZonedDevice> device, OptionMap options,
                                 std::unique_ptr<rocksdb::FileSystem>* file_system);

}  // namespace zlfs
