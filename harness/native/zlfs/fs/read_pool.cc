#include "zlfs/fs/read_pool.h"

#include <utility>

namespace zlfs {

// All members but `work` are guarded by mutex_.
struct ReadPool::Batch {
  const Work work;
  std::size_t count = 0;
  std::size_t next = 0;  // first index that no thread took
  std::size_t left = 0;  // calls that have not returned
};

ReadPool::~ReadPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReadPool::ForEach(std::size_t count, const Work& work) {
  Await(Start(count, [&work](std::size_t index) { work(index); }));
}

ReadPool::Started ReadPool::Start(std::size_t count, Work work) {
  const auto batch =
      std::make_shared<Batch>(Batch{.work = std::move(work), .count = count, .left = count});
  const std::lock_guard lock(mutex_);
  if (threads_.empty()) {
    for (std::size_t i = 0; i < wanted_; ++i) threads_.emplace_back(&ReadPool::Serve, this);
  }
  batches_.push_back(batch);
  changed_.notify_all();
  return batch;
}

void ReadPool::Await(const Started& batch) {
  std::unique_lock lock(mutex_);
  Help(&lock, batch.get());
  changed_.wait(lock, [&batch] { return batch->left == 0; });
}

void ReadPool::Cancel(const Started& batch) {
  std::unique_lock lock(mutex_);
  batch->left -= batch->count - batch->next;
  batch->next = batch->count;
  std::erase(batches_, batch);
  changed_.wait(lock, [&batch] { return batch->left == 0; });
}

void ReadPool::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !batches_.empty(); });
    if (ends_) return;
    const std::shared_ptr<Batch> batch = batches_.front();
    Help(&lock, batch.get());
  }
}

void ReadPool::Help(std::unique_lock<std::mutex>* lock, Batch* batch) {
  while (batch->next < batch->count) {
    const std::size_t index = batch->next++;
    if (batch->next == batch->count) {
      std::erase_if(batches_, [batch](const auto& other) { return other.get() == batch; });
    }
    lock->unlock();
    batch->work(index);
    lock->lock();
    if (--batch->left == 0) changed_.notify_all();
  }
}

}  // namespace zlfs
