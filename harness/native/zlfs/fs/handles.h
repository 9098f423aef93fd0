// File and directory objects for RocksDB.

#pragma once

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rocksdb/file_system.h"
#include "rocksdb/version.h"
#include "zlfs/fs/async_read.h"
#include "zlfs/fs/volume.h"

// zlfs supports RocksDB 7.8 to 9.10.
#define ZLFS_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

namespace zlfs {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;

// Returns true for a compaction, false for a flush, and nothing if the activity is unknown. RocksDB
// up to 8.0 does not report its activity.
inline std::optional<bool> Compacts([[maybe_unused]] const IOOptions& options) {
#if ZLFS_ROCKSDB_AT_LEAST(8, 1)
  if (options.io_activity == rocksdb::Env::IOActivity::kFlush) return false;
  if (options.io_activity == rocksdb::Env::IOActivity::kCompaction) return true;
#endif
  return std::nullopt;
}

// Whether the calling thread compacts. RocksDB names its threads, and a new thread inherits the
// name of its creator.
inline bool InCompaction(const IOOptions& options) {
  thread_local const bool background = [] {
    std::string name(16, '\0');
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return name.starts_with("rocksdb:low") || name.starts_with("rocksdb:bottom");
  }();
  return Compacts(options).value_or(background);
}

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(Volume* volume, std::shared_ptr<File> file, const std::string& name,
               const rocksdb::FileOptions& options)
      : FSWritableFile(options),
        volume_(volume),
        file_(std::move(file)),
        table_(name.ends_with(".sst") || name.ends_with(".blob")) {}
  ~WritableFile() override { Close({}, nullptr).PermitUncheckedError(); }

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext*) override {
    // RocksDB sets the lifetime and priority after it creates the file and before the first append.
    Place(options);
    return volume_->writer().Append(file_.get(), data);
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    if (size == GetFileSize(options, debug)) return IOStatus::OK();
    return IOStatus::NotSupported("truncate", "zones are append-only");
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (std::exchange(closed_, true)) return IOStatus::OK();
    return volume_->writer().FinishWriting(file_.get());
  }
  // RocksDB acknowledges an unsynced write after the flush of the WAL. Such a write must survive
  // the end of the process. RocksDB syncs all other files before it needs them.
  IOStatus Flush(const IOOptions&, IODebugContext*) override {
    if (file_->kind != FileKind::kLog) return IOStatus::OK();
    Place({});
    return volume_->writer().SaveBuffer(file_.get());
  }
  IOStatus RangeSync(std::uint64_t, std::uint64_t, const IOOptions&, IODebugContext*) override {
    if (file_->kind != FileKind::kLog) return IOStatus::OK();
    Place({});
    return volume_->writer().WriteBuffer(file_.get());
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return volume_->writer().Sync(file_.get());
  }
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    return volume_->reader().Size(file_.get());
  }

 private:
  void Place(const IOOptions& options) {
    if (!std::exchange(placed_, true)) {
      volume_->writer().SetPlacement(file_.get(), PlacementFor(options));
    }
  }
  Placement PlacementFor(const IOOptions& options) {
    if (file_->kind == FileKind::kLog) {
      return {.cause = Cause::kWal, .lifetime = rocksdb::Env::WLTH_SHORT};
    }
    if (!table_) return {};
    // Flushes run at high priority and compactions at low priority. During a write stall, both run
    // at user priority; in that case only compactions preallocate.
    const bool compaction = Compacts(options).value_or(
        io_priority_ == rocksdb::Env::IO_LOW ||
        (io_priority_ != rocksdb::Env::IO_HIGH && preallocation_block_size() > 0));
    // Files that users copy or write with SstFileWriter have no priority.
    const bool user = io_priority_ == rocksdb::Env::IO_TOTAL && !compaction;
    return {.cause = compaction ? Cause::kCompaction : Cause::kFlush,
            .job = !user,
            .lifetime = static_cast<std::uint8_t>(write_hint_)};
  }

  Volume* const volume_;
  const std::shared_ptr<File> file_;
  const bool table_;  // an SST or blob file
  bool placed_ = false;
  bool closed_ = false;
};

// The type of a method's third parameter. For ReadAsync's callback it depends on RocksDB's version.
template <typename Method>
struct ThirdArgument;
template <typename Result, typename Class, typename First, typename Second, typename Third,
          typename... Others>
struct ThirdArgument<Result (Class::*)(First, Second, Third, Others...)> {
  using type = Third;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(Volume* volume, std::shared_ptr<File> file)
      : volume_(volume), file_(std::move(file)) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext*) const override {
    return volume_->reader().TracedRead(file_.get(), InCompaction(options), offset, n, result,
                                        scratch);
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, std::size_t count, const IOOptions& options,
                     IODebugContext*) override {
    // Asked in this thread: the pool's threads serve all readers.
    const bool compaction = InCompaction(options);
    volume_->reader().ReadMany(count, [this, requests, compaction](std::size_t i) {
      rocksdb::FSReadRequest& one = requests[i];
      one.status = volume_->reader().TracedRead(file_.get(), compaction, one.offset, one.len,
                                                &one.result, one.scratch);
    });
    return IOStatus::OK();
  }
  using ReadDone = ThirdArgument<decltype(&FSRandomAccessFile::ReadAsync)>::type;
  IOStatus ReadAsync(rocksdb::FSReadRequest& request, const IOOptions& options, ReadDone done,
                     void* argument, void** handle, rocksdb::IOHandleDeleter* deleter,
                     IODebugContext* debug) override {
    ReadPool* const pool = volume_->reader().pool();
    if (pool == nullptr) {
      return FSRandomAccessFile::ReadAsync(request, options, std::move(done), argument, handle,
                                           deleter, debug);
    }
    const auto read = [volume = volume_, file = file_,
                       compaction = InCompaction(options)](rocksdb::FSReadRequest* one) {
      one->status = volume->reader().TracedRead(file.get(), compaction, one->offset, one->len,
                                                &one->result, one->scratch);
    };
    *handle = new AsyncRead(pool, request, read, std::move(done), argument);
    *deleter = [](void* begun) { delete static_cast<AsyncRead*>(begun); };
    return IOStatus::OK();
  }
  // Prefetch stays unsupported: zlfs has no cache, so RocksDB must read ahead into its own memory.

 private:
  Volume* const volume_;
  const std::shared_ptr<File> file_;
};

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(Volume* volume, std::shared_ptr<File> file)
      : volume_(volume), file_(std::move(file)) {}

  IOStatus Read(std::size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext*) override {
    const IOStatus status = volume_->reader().TracedRead(file_.get(), InCompaction(options),
                                                         position_, n, result, scratch);
    position_ += result->size();
    return status;
  }
  IOStatus Skip(std::uint64_t n) override {
    position_ = std::min(position_ + n, volume_->reader().Size(file_.get()));
    return IOStatus::OK();
  }

 private:
  Volume* const volume_;
  const std::shared_ptr<File> file_;
  std::uint64_t position_ = 0;
};

class Directory final : public rocksdb::FSDirectory {
 public:
  explicit Directory(Volume* volume) : volume_(volume) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return volume_->files().SyncNames();
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  Volume* const volume_;
};

}  // namespace zlfs
