// A recorded load: every modifying command, in the order in which the device executed them.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "zlfs/crash/database.h"
#include "zlfs/crash/tap.h"

namespace zlfs::crash {

// In the file, the entry of a write is followed by its `size` bytes of data. Traces stay on one
// machine, so the file has the layout of memory.
struct TraceEntry {
  CommandKind kind = CommandKind::kFlush;
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  // Operations of each writer that were acknowledged as durable before the command was issued.
  std::array<std::uint64_t, kMaxWriters> synced = {};
};

// Appends commands to a trace. Kills the process in place of command number `commands`, so that a
// trace can span many processes.
class Recorder {
 public:
  static rocksdb::IOStatus Open(const std::string& path, std::uint64_t commands, Progress* progress,
                                std::unique_ptr<Recorder>* recorder);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  IOStatus Record(ZonedDevice* inner, const Command& command);

 private:
  Recorder(int fd, std::uint64_t commands, Progress* progress)
      : fd_(fd), commands_(commands), progress_(progress) {}

  const int fd_;
  const std::uint64_t commands_;
  Progress* const progress_;
  std::mutex mutex_;  // guards recorded_, the file and the order of commands
  std::uint64_t recorded_ = 0;
};

class Trace {
 public:
  rocksdb::IOStatus Load(const std::string& path);

  std::size_t size() const { return entries_.size(); }
  const TraceEntry& entry(std::size_t i) const { return entries_[i]; }
  const std::string& data(std::size_t i) const { return data_[i]; }
  // Executes command i on the device.
  rocksdb::IOStatus Replay(std::size_t i, ZonedDevice* device) const;

 private:
  std::vector<TraceEntry> entries_;
  std::vector<std::string> data_;  // one per entry
};

}  // namespace zlfs::crash
