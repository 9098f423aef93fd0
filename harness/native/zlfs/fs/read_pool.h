// Threads that read in parallel. A device answers many reads in the time of one, but each read
// blocks its thread.

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

  using Work = std::function<void(std::size_t index)>;
  // Calls work(0) to work(count - 1) in any order, in this thread and others. Returns when all
  // calls have returned.
  void ForEach(std::size_t count, const Work& work);

  // As ForEach, but returns at once. The caller ends each batch with Await or Cancel.
  struct Batch;
  using Started = std::shared_ptr<Batch>;
  Started Start(std::size_t count, Work work);
  // Returns when all calls have returned. Takes part in them.
  void Await(const Started& batch);
  // Drops the calls that no thread took, and returns when all others have returned.
  void Cancel(const Started& batch);

 private:
  void Serve();
  // Calls the batch's work until no index is left. `lock` holds mutex_, which is released during
  // each call.
  void Help(std::unique_lock<std::mutex>* lock, Batch* batch);

  const std::size_t wanted_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> batches_;  // those with indexes that no thread took
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zlfs
