// Threads that read in parallel. A device answers many reads in the time of one, but a thread waits
// for each.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace zlfs {

class ReadPool {
 public:
  // The threads start with the first batch.
  explicit ReadPool(std::size_t threads) : wanted_(threads) {}
  ~ReadPool();

  // Calls work(0) to work(count - 1) in any order, in this thread and others. Returns when all have
  // returned.
  using Work = std::function<void(std::size_t index)>;
  void ForEach(std::size_t count, const Work& work);

 private:
  struct Batch {
    const Work* work = nullptr;
    std::size_t count = 0;
    std::size_t next = 0;  // first index that no thread took
    std::size_t left = 0;  // calls that have not returned
  };

  void Serve();
  // Takes indexes of the batch until there are none. `lock` holds mutex_.
  void Help(std::unique_lock<std::mutex>* lock, Batch* batch);

  const std::size_t wanted_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> batches_;  // with indexes that no thread took
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zlfs
