// The file objects that RocksDB holds.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/file_system.h"
#include "zlfs/fs/volume.h"

namespace zlfs {

// Takes over a handle of the file and releases it.
class Handle {
 public:
  Handle(Volume* volume, std::shared_ptr<File> file) : volume_(volume), file_(std::move(file)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { volume_->Release(file_); }

  Volume* volume() const { return volume_; }
  File* file() const { return file_.get(); }
  // What a table cache uses to tell files apart. Returns the bytes used.
  std::size_t UniqueId(char* id, std::size_t max_size) const;

 private:
  Volume* const volume_;
  const std::shared_ptr<File> file_;
};

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(Volume* volume, std::shared_ptr<File> file, const std::string& name,
               const rocksdb::FileOptions& options);
  ~WritableFile() override;

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug) override;
  IOStatus Truncate(std::uint64_t size, const rocksdb::IOOptions& options,
                    rocksdb::IODebugContext* debug) override;
  IOStatus Close(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  // Readers see the buffer, so there is nothing to do.
  IOStatus Flush(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override;
  bool IsSyncThreadSafe() const override { return true; }
  std::uint64_t GetFileSize(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override;
  std::size_t GetUniqueId(char* id, std::size_t max_size) const override;

 private:
  void Place(const rocksdb::IOOptions& options);

  Handle handle_;
  const bool table_;  // an SST or blob file
  Cause cause_ = Cause::kOther;
  bool placed_ = false;
  bool closed_ = false;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(Volume* volume, std::shared_ptr<File> file) : handle_(volume, std::move(file)) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const rocksdb::IOOptions& options,
                Slice* result, char* scratch, rocksdb::IODebugContext* debug) const override;
  std::size_t GetUniqueId(char* id, std::size_t max_size) const override;

 private:
  Handle handle_;
};

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(Volume* volume, std::shared_ptr<File> file) : handle_(volume, std::move(file)) {}

  IOStatus Read(std::size_t n, const rocksdb::IOOptions& options, Slice* result, char* scratch,
                rocksdb::IODebugContext* debug) override;
  IOStatus Skip(std::uint64_t n) override;

 private:
  Handle handle_;
  std::uint64_t position_ = 0;
};

// Kind of the file by its name: WALs are written in pieces.
FileKind KindOf(const std::string& name);

}  // namespace zlfs
