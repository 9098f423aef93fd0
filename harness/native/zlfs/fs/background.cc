#include "zlfs/fs/background.h"

#include <utility>

namespace zlfs {

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::Add(Job job) {
  if (!threaded_) return job();
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread(&Background::Serve, this);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

bool Background::Drain() {
  std::unique_lock lock(mutex_);
  const bool any = running_ > 0 || !jobs_.empty();
  while (!jobs_.empty()) RunFirst(&lock);
  changed_.wait(lock, [this] { return running_ == 0; });
  return any;
}

void Background::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    RunFirst(&lock);
  }
}

void Background::RunFirst(std::unique_lock<std::mutex>* lock) {
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  ++running_;
  lock->unlock();
  job();
  lock->lock();
  --running_;
  changed_.notify_all();
}

}  // namespace zlfs
