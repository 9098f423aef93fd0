// Resets zones in a thread of its own. A reset takes milliseconds, and no sync waits for it.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace zlfs {

class Resetter {
 public:
  using Reset = std::function<void(std::uint32_t zone)>;
  // Without `background`, Add resets the zone itself. A device in memory resets faster than a
  // thread wakes.
  Resetter(bool background, Reset reset) : background_(background), reset_(std::move(reset)) {}
  // Forgets the zones that wait. The next mount resets them.
  ~Resetter();

  void Add(std::uint32_t zone);
  // Resets the zones that wait, and returns when no reset runs. Returns whether there were any.
  bool Drain();

 private:
  void Serve();
  // Resets the zone that waits longest. `lock` holds mutex_, and zones_ is not empty.
  void ResetFirst(std::unique_lock<std::mutex>* lock);

  const bool background_;
  const Reset reset_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::uint32_t> zones_;
  std::size_t running_ = 0;
  bool ends_ = false;
  std::thread thread_;  // starts with the first zone
};

}  // namespace zlfs
