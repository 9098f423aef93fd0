// Reads that tests begin with ReadAsync.

#pragma once

#include <string>

#include "rocksdb/file_system.h"

namespace zlfs {

// One read, and the results that its callback got.
struct Begun {
  Begun() = default;
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;
  ~Begun() {
    if (handle != nullptr) deleter(handle);
  }

  rocksdb::IOStatus Begin(rocksdb::FSRandomAccessFile* file, std::uint64_t offset,
                          std::size_t size) {
    buffer.resize(size);
    request.offset = offset;
    request.len = size;
    request.scratch = buffer.data();
    const auto done = [](const rocksdb::FSReadRequest& read, void* argument) {
      auto* const begun = static_cast<Begun*>(argument);
      ++begun->calls;
      begun->status = read.status;
      begun->result = read.result.ToString();
    };
    return file->ReadAsync(request, {}, done, this, &handle, &deleter, nullptr);
  }

  std::string buffer;
  rocksdb::FSReadRequest request;
  void* handle = nullptr;
  rocksdb::IOHandleDeleter deleter;
  int calls = 0;
  rocksdb::IOStatus status;
  std::string result;
};

}  // namespace zlfs
