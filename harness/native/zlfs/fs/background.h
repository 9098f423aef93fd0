// Runs commands in its own thread, in order. Resets and finishes of zones take up to a second, and
// no sync or close waits for them.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace zlfs {

class Background {
 public:
  using Job = std::function<void()>;
  // Without `threaded`, Add runs the job itself. A device in memory is faster than the start of a
  // thread, and crash campaigns stay repeatable.
  explicit Background(bool threaded) : threaded_(threaded) {}
  // Drops the jobs that wait. The next mount does not need them.
  ~Background();

  void Add(Job job);
  // Runs the jobs that wait, also in the calling thread. Returns when no job runs: true if there
  // were any.
  bool Drain();

 private:
  void Serve();
  // Runs the oldest job. `lock` holds mutex_, which is released meanwhile; jobs_ is not empty.
  void RunFirst(std::unique_lock<std::mutex>* lock);

  const bool threaded_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::size_t running_ = 0;
  bool ends_ = false;
  std::thread thread_;  // starts with the first job
};

}  // namespace zlfs
