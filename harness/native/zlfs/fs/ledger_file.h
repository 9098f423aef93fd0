// Writes a line of the ledger once a second, and a last one at its end.

#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "rocksdb/io_status.h"

namespace zlfs {

class LedgerFile {
 public:
  // Makes a line, given the event. Called from a thread of this object, and by the destructor.
  using Line = std::function<std::string(const char* event)>;

  static rocksdb::IOStatus Open(const std::string& path, Line line,
                                std::unique_ptr<LedgerFile>* file);
  ~LedgerFile();

 private:
  LedgerFile(std::FILE* file, Line line);
  void Run(const std::stop_token& stop);
  void Write(const char* event);

  std::FILE* const file_;
  const Line line_;
  std::jthread thread_;
};

}  // namespace zlfs
