#include "zlfs/fs/ledger_file.h"

#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
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
    : file_(file),
      line_(std::move(line)),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

LedgerFile::~LedgerFile() {
  thread_.request_stop();
  thread_.join();
  Write("close");
  std::fclose(file_);
}

void LedgerFile::Run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "zlfs-ledger");  // so that its cost can be measured
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  for (;;) {
    never.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) return;
    Write("sample");
  }
}

void LedgerFile::Write(const char* event) {
  const std::string text = line_(event) + "\n";
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

}  // namespace zlfs
