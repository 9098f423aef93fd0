// Writes the ledger (docs/zlfs.md): a line per interval and one at close.

#pragma once

#include <chrono>
#include <ctime>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>

#include "zlfs/fs/collector.h"
#include "zlfs/fs/volume_state.h"
#include "zlfs/fs/zone_commands.h"

namespace zlfs {

class LedgerFile {
 public:
  LedgerFile(VolumeState* state, ZoneCommands* commands, const Collector* collector)
      : state_(state), commands_(commands), collector_(collector) {}

  // Appends to the file from now on. Without this call, there is no ledger.
  IOStatus Open(const std::string& path, std::chrono::seconds interval);
  // Writes the last line, also as the end of the trace.
  void Close();

 private:
  void Keep(const std::stop_token& stop, std::chrono::seconds interval);
  std::string Line(const char* event);

  VolumeState* const state_;
  ZoneCommands* const commands_;
  const Collector* const collector_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::time_t mounted_ = std::time(nullptr);
  std::ofstream file_;  // used only by thread_ while it runs
  std::jthread thread_;
};

}  // namespace zlfs
