// A recorded load: every command that changed the device, in the order in which the device carried
// them out, and what was acknowledged as durable before each.

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

// In the file: this, then `size` bytes of data for a write. Traces stay on the machine that made
// them, so it is stored as it is.
struct TraceEntry {
  CommandKind kind = CommandKind::kFlush;
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  // Operations of each writer that were acknowledged as durable before the command was given.
  std::array<std::uint64_t, kMaxWriters> synced = {};
};

// Appends to a trace, one command at a time. The process is killed instead of giving the device
// command number `commands`, so that a trace can consist of many lives.
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
  std::mutex mutex_;  // guards what follows, the file, and the order of commands
  std::uint64_t recorded_ = 0;
};

class Trace {
 public:
  rocksdb::IOStatus Load(const std::string& path);

  std::size_t size() const { return entries_.size(); }
  const TraceEntry& entry(std::size_t i) const { return entries_[i]; }
  const std::string& data(std::size_t i) const { return data_[i]; }
  // Gives command i to the device.
  rocksdb::IOStatus Replay(std::size_t i, ZonedDevice* device) const;

 private:
  std::vector<TraceEntry> entries_;
  std::vector<std::string> data_;  // of each entry
};

}  // namespace zlfs::crash
