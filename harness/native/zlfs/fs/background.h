// Runs commands in a thread of its own, one after another. Resets and finishes of zones take up to
// a second, and no sync or close waits for them.

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
  // Without `threaded`, Add runs the job itself: a device in memory is faster than a thread wakes.
  explicit Background(bool threaded) : threaded_(threaded) {}
  // Forgets the jobs that wait. The next mount does without them.
  ~Background();

  void Add(Job job);
  // Runs the jobs that wait, and returns when no job runs. Returns whether there were any.
  bool Drain();

 private:
  void Serve();
  // Runs the job that waits longest. `lock` holds mutex_, and jobs_ is not empty.
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
