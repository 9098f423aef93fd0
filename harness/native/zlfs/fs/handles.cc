#include "zlfs/fs/handles.h"

#include <algorithm>
#include <utility>

#include "zlfs/format/codec.h"
#include "zlfs/fs/compat.h"

namespace zlfs {
namespace {

bool IsTable(const std::string& name) { return name.ends_with(".sst") || name.ends_with(".blob"); }

}  // namespace

FileKind KindOf(const std::string& name) {
  return name.ends_with(".log") ? FileKind::kLog : FileKind::kData;
}

std::size_t Handle::UniqueId(char* id, std::size_t max_size) const {
  // No value of this length is the prefix of another one.
  constexpr std::size_t kSize = 2 * sizeof(std::uint64_t);
  if (max_size < kSize) return 0;
  const auto& volume = volume_->superblock().volume;
  StoreFixed(id, LoadFixed<std::uint64_t>(volume.data()));
  StoreFixed(id + sizeof(std::uint64_t), file_->id);
  return kSize;
}

WritableFile::WritableFile(Volume* volume, std::shared_ptr<File> file, const std::string& name,
                           const rocksdb::FileOptions& options)
    : FSWritableFile(options), handle_(volume, std::move(file)), table_(IsTable(name)) {}

WritableFile::~WritableFile() {
  if (!closed_) Close(rocksdb::IOOptions(), nullptr).PermitUncheckedError();
}

// RocksDB tells lifetime and priority after it made the file and before it appends.
void WritableFile::Place(const rocksdb::IOOptions& options) {
  Placement placement;
  if (handle_.file()->kind == FileKind::kLog) {
    placement = {.stream = Stream::kLog, .urgency = Urgency::kGrowth, .cause = Cause::kWal};
    placement.lifetime = rocksdb::Env::WLTH_SHORT;
  } else if (table_) {
    // Flushes run at high priority and compactions at low. When writers are stalled both rise to
    // user priority; then only compactions preallocate.
    const Activity activity = ActivityOf(options);
    bool compaction = activity == Activity::kCompaction;
    if (activity == Activity::kUnknown) {
      compaction = io_priority_ == rocksdb::Env::IO_LOW ||
                   (io_priority_ != rocksdb::Env::IO_HIGH && preallocation_block_size() > 0);
    }
    placement = {.stream = Stream::kData,
                 .urgency = compaction ? Urgency::kOrdinary : Urgency::kFlush,
                 .cause = compaction ? Cause::kCompaction : Cause::kFlush,
                 .lifetime = static_cast<std::uint8_t>(write_hint_)};
  }
  handle_.volume()->SetPlacement(handle_.file(), placement);
  placed_ = true;
}

IOStatus WritableFile::Append(const Slice& data, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* /*debug*/) {
  if (!placed_) Place(options);
  return handle_.volume()->Append(handle_.file(), data);
}

IOStatus WritableFile::Truncate(std::uint64_t size, const rocksdb::IOOptions& /*options*/,
                                rocksdb::IODebugContext* /*debug*/) {
  if (size == handle_.volume()->Size(handle_.file())) return IOStatus::OK();
  return IOStatus::NotSupported("truncate", "zones are append-only");
}

IOStatus WritableFile::Close(const rocksdb::IOOptions& /*options*/,
                             rocksdb::IODebugContext* /*debug*/) {
  if (std::exchange(closed_, true)) return IOStatus::OK();
  return handle_.volume()->FinishWriting(handle_.file());
}

IOStatus WritableFile::Flush(const rocksdb::IOOptions& /*options*/,
                             rocksdb::IODebugContext* /*debug*/) {
  return IOStatus::OK();
}

IOStatus WritableFile::Sync(const rocksdb::IOOptions& /*options*/,
                            rocksdb::IODebugContext* /*debug*/) {
  return handle_.volume()->Sync(handle_.file());
}

std::uint64_t WritableFile::GetFileSize(const rocksdb::IOOptions& /*options*/,
                                        rocksdb::IODebugContext* /*debug*/) {
  return handle_.volume()->Size(handle_.file());
}

std::size_t WritableFile::GetUniqueId(char* id, std::size_t max_size) const {
  return handle_.UniqueId(id, max_size);
}

IOStatus RandomAccessFile::Read(std::uint64_t offset, std::size_t n,
                                const rocksdb::IOOptions& /*options*/, Slice* result, char* scratch,
                                rocksdb::IODebugContext* /*debug*/) const {
  std::size_t read = 0;
  const IOStatus status = handle_.volume()->Read(handle_.file(), offset, n, scratch, &read);
  *result = Slice(scratch, read);
  return status;
}

std::size_t RandomAccessFile::GetUniqueId(char* id, std::size_t max_size) const {
  return handle_.UniqueId(id, max_size);
}

IOStatus SequentialFile::Read(std::size_t n, const rocksdb::IOOptions& /*options*/, Slice* result,
                              char* scratch, rocksdb::IODebugContext* /*debug*/) {
  std::size_t read = 0;
  const IOStatus status = handle_.volume()->Read(handle_.file(), position_, n, scratch, &read);
  *result = Slice(scratch, read);
  position_ += read;
  return status;
}

IOStatus SequentialFile::Skip(std::uint64_t n) {
  position_ = std::min(position_ + n, handle_.volume()->Size(handle_.file()));
  return IOStatus::OK();
}

}  // namespace zlfs
