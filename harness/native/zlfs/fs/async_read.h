// A read that RocksDB begins with ReadAsync and ends with Poll or AbortIO.

#pragma once

#include <functional>
#include <utility>

#include "rocksdb/file_system.h"
#include "zlfs/fs/read_pool.h"

namespace zlfs {

// The pool's threads do these reads. io_uring would need callbacks in the device's interface.
class AsyncRead {
 public:
  // RocksDB's type of this callback depends on its version.
  using Done = std::function<void(rocksdb::FSReadRequest& request, void* argument)>;
  using Read = std::function<void(rocksdb::FSReadRequest* request)>;

  // Begins `read`, which sets status and result of the request.
  AsyncRead(ReadPool* pool, const rocksdb::FSReadRequest& wanted, Read read, Done done,
            void* argument)
      : pool_(pool), done_(std::move(done)), argument_(argument) {
    request_.offset = wanted.offset;
    request_.len = wanted.len;
    request_.scratch = wanted.scratch;
    started_ = pool_->Start(1, [this, read = std::move(read)](std::size_t) { read(&request_); });
  }
  AsyncRead(const AsyncRead&) = delete;
  AsyncRead& operator=(const AsyncRead&) = delete;
  // Ends the read: after this, the caller may free the memory that the read fills.
  ~AsyncRead() { pool_->Cancel(started_); }

  // Returns when the read is done, and reports it.
  void Await() {
    pool_->Await(started_);
    Report();
  }
  // Ends the read without a result. Calls the callback too: RocksDB frees its argument there.
  void Abort() {
    pool_->Cancel(started_);
    request_.status = rocksdb::IOStatus::Aborted();
    Report();
  }

 private:
  void Report() {
    if (!std::exchange(reported_, true)) done_(request_, argument_);
  }

  ReadPool* const pool_;
  const Done done_;
  void* const argument_;
  rocksdb::FSReadRequest request_;  // used by the pool's thread until the batch ends
  ReadPool::Started started_;
  bool reported_ = false;  // used only by the thread that calls Await or Abort
};

}  // namespace zlfs
