#include "zlfs/fs/resetter.h"

namespace zlfs {

Resetter::~Resetter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Resetter::Add(std::uint32_t zone) {
  if (!background_) return reset_(zone);
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread(&Resetter::Serve, this);
  zones_.push_back(zone);
  changed_.notify_all();
}

bool Resetter::Drain() {
  std::unique_lock lock(mutex_);
  const bool any = running_ > 0 || !zones_.empty();
  while (!zones_.empty()) ResetFirst(&lock);
  changed_.wait(lock, [this] { return running_ == 0; });
  return any;
}

void Resetter::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !zones_.empty(); });
    if (ends_) return;
    ResetFirst(&lock);
  }
}

void Resetter::ResetFirst(std::unique_lock<std::mutex>* lock) {
  const std::uint32_t zone = zones_.front();
  zones_.pop_front();
  ++running_;
  lock->unlock();
  reset_(zone);
  lock->lock();
  --running_;
  changed_.notify_all();
}

}  // namespace zlfs
