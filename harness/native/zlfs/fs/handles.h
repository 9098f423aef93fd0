// The objects that RocksDB holds: files and directories.

#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rocksdb/file_system.h"
#include "rocksdb/version.h"
#include "zlfs/fs/volume.h"

// zlfs compiles with 7.8 to 9.10.
#define ZLFS_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace zlfs {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;

// Whether RocksDB says that it compacts, or that it flushes. Up to 8.0 it does not say.
inline std::optional<bool> Compacts([[maybe_unused]] const IOOptions& options) {
#if ZLFS_ROCKSDB_AT_LEAST(8, 1)
  if (options.io_activity == rocksdb::Env::IOActivity::kFlush) return false;
  if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) return true;
#endif
  return std::nullopt;
}

// Takes over a handle of the file and releases it.
struct Handle {
  Handle(Volume* the_volume, std::shared_ptr<File> the_file)
      : volume(the_volume), file(std::move(the_file)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { volume->Release(file); }

  IOStatus Read(std::uint64_t offset, std::size_t n, Slice* result, char* scratch) const {
    std::size_t read = 0;
    const IOStatus status = volume->Read(file.get(), offset, n, scratch, &read);
    *result = Slice(scratch, read);
    return status;
  }

  Volume* const volume;
  const std::shared_ptr<File> file;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(Volume* volume, std::shared_ptr<File> file, const std::string& name,
               const rocksdb::FileOptions& options)
      : FSWritableFile(options),
        handle_(volume, std::move(file)),
        table_(name.ends_with(".sst") || name.ends_with(".blob")) {}
  ~WritableFile() override { Close({}, nullptr).PermitUncheckedError(); }

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext*) override {
    // RocksDB tells lifetime and priority after it made the file and before it appends.
    if (!std::exchange(placed_, true)) {
      handle_.volume->SetPlacement(handle_.file.get(), PlacementFor(options));
    }
    return handle_.volume->Append(handle_.file.get(), data);
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    if (size == GetFileSize(options, debug)) return IOStatus::OK();
    return IOStatus::NotSupported("truncate", "zones are append-only");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (std::exchange(closed_, true)) return IOStatus::OK();
    return handle_.volume->FinishWriting(handle_.file.get());
  }
  // Readers see the buffer, so there is nothing to do.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return handle_.volume->Sync(handle_.file.get());
  }
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    return handle_.volume->Size(handle_.file.get());
  }

 private:
  Placement PlacementFor(const IOOptions& options) {
    if (handle_.file->kind == FileKind::kLog) {
      return {.cause = Cause::kWal, .lifetime = rocksdb::Env::WLTH_SHORT};
    }
    if (!table_) return {};
    // Flushes run at high priority and compactions at low. When writers are stalled both rise to
    // user priority; then only compactions preallocate.
    const bool compaction = Compacts(options).value_or(
        io_priority_ == rocksdb::Env::IO_LOW ||
        (io_priority_ != rocksdb::Env::IO_HIGH && preallocation_block_size() > 0));
    // What users write by SstFileWriter, or copy, has no priority.
    const bool user = io_priority_ == rocksdb::Env::IO_TOTAL && !compaction;
    return {.cause = compaction ? Cause::kCompaction : Cause::kFlush,
            .job = !user,
            .lifetime = static_cast<std::uint8_t>(write_hint_)};
  }

  const Handle handle_;
  const bool table_;  // an SST or blob file
  bool placed_ = false;
  bool closed_ = false;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(Volume* volume, std::shared_ptr<File> file) : handle_(volume, std::move(file)) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    return handle_.Read(offset, n, result, scratch);
  }

 private:
  const Handle handle_;
};

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(Volume* volume, std::shared_ptr<File> file) : handle_(volume, std::move(file)) {}

  IOStatus Read(std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    const IOStatus status = handle_.Read(position_, n, result, scratch);
    position_ += result->size();
    return status;
  }
  IOStatus Skip(std::uint64_t n) override {
    position_ = std::min(position_ + n, handle_.volume->Size(handle_.file.get()));
    return IOStatus::OK();
  }

 private:
  const Handle handle_;
  std::uint64_t position_ = 0;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  explicit Directory(Volume* volume) : volume_(volume) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return volume_->SyncNames(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  Volume* const volume_;
};

}  // namespace zlfs
