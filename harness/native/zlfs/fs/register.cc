// Registers the zlfs:// scheme with RocksDB when this object file is loaded.

#include "rocksdb/utilities/object_registry.h"
#include "zlfs/fs/file_system.h"

namespace zlfs {
namespace {

rocksdb::FileSystem* Make(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard,
                          std::string* message) {
  const rocksdb::IOStatus status = OpenFileSystem(uri, guard);
  if (!status.ok()) *message = status.ToString();
  return guard->get();
}

[[maybe_unused]] const bool registered = [] {
  rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(
      rocksdb::ObjectLibrary::PatternEntry("zlfs", false).AddSeparator("://"), Make);
  return true;
}();

}  // namespace
}  // namespace zlfs
