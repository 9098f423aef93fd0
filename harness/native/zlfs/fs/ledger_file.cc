#include "zlfs/fs/ledger_file.h"

#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace zlfs {

using rocksdb::IOStatus;

IOStatus LedgerFile::Open(const std::string& path, Line line, std::unique_ptr<LedgerFile>* file) {
  std::FILE* const stream = std::fopen(path.c_str(), "ae");
  if (stream == nullptr) {
    return IOStatus::IOError("ledger", path + ": " + std::strerror(errno));
  }
  file->reset(new LedgerFile(stream, std::move(line)));
  return IOStatus::OK();
}

LedgerFile::LedgerFile(std::FILE* file, Line line)
    : file_(file), line_(std::move(line)), thread_([this] { Run(); }) {}

LedgerFile::~LedgerFile() {
  Close();
  std::fclose(file_);
}

void LedgerFile::Close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  Write("close");
}

void LedgerFile::Run() {
  pthread_setname_np(pthread_self(), "zlfs-ledger");  // so that its cost can be measured
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return closing_; })) {
    lock.unlock();
    Write("sample");
    lock.lock();
  }
}

void LedgerFile::Write(const char* event) {
  const std::string text = line_(event) + "\n";
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

}  // namespace zlfs
