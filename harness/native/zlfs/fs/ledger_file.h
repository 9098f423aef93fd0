// Writes a line of the ledger once a second.

#pragma once

#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "rocksdb/io_status.h"

namespace zlfs {

class LedgerFile {
 public:
  // `line` makes a line, given the event; called from a thread of this object and from Close.
  using Line = std::function<std::string(const char* event)>;

  static rocksdb::IOStatus Open(const std::string& path, Line line,
                                std::unique_ptr<LedgerFile>* file);
  ~LedgerFile();
  // The last line.
  void Close();

 private:
  LedgerFile(std::FILE* file, Line line);
  void Run();
  void Write(const char* event);

  std::FILE* const file_;
  const Line line_;
  std::mutex mutex_;  // guards closing_
  std::condition_variable changed_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace zlfs
