// How long a writer without space waits for space to return.

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace zlfs {

class Patience {
 public:
  virtual ~Patience() = default;
  // Waits until `done` returns true, or until the patience ends. Returns done().
  //
  // RocksDB deletes the inputs of a compaction some time after it writes the last output. It starts
  // the next compaction when a thread is free. If nothing is written, closed or freed for this
  // long, the device is full.
  virtual bool Wait(std::unique_lock<std::mutex>* lock, std::condition_variable* changed,
                    const std::function<bool()>& done) {
    return changed->wait_for(*lock, std::chrono::seconds(1), done);
  }
};

}  // namespace zlfs
