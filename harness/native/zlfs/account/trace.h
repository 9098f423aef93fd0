// Records the calls of an allocator, so that they can be replayed with other settings.

#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "zlfs/format/event.h"
#include "zlfs/format/sealed.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

// Which reads a trace holds.
enum class TracedReads : std::uint8_t { kCompaction, kAll, kNone };

// Safe to call from any thread. Callers of Add hold the lock that guards the allocator, so events
// are in the order of the decisions. A write error does not reach the caller: the trace then lacks
// its last event, and readers refuse it.
class AllocationTrace {
 public:
  // Starts recording: appends to the file. Before this call, Add and End do nothing.
  IOStatus Open(const std::string& path, TracedReads reads);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool Takes(bool compaction) const {
    return on() && (reads_ == TracedReads::kAll || (compaction && reads_ != TracedReads::kNone));
  }
  // Nanoseconds of a clock that never goes back.
  static std::uint64_t Now();

  void Add(const Event& event);
  void Add(Step step, std::uint64_t subject, std::uint64_t detail = 0) {
    Add(StepEvent{static_cast<std::uint32_t>(step), subject, detail});
  }
  // A sync that began at `begin` ends now.
  void AddSync(std::uint64_t file, bool log, std::uint64_t begin);
  // A read that began at `begin` ends now.
  void AddRead(std::uint64_t file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t begin);
  // `ledger` is the ledger's last line.
  void End(const std::string& ledger);

 private:
  // Reads of one thread that AddRead joins into one event.
  struct Reading {
    ReadEvent event;
    std::uint32_t thread = 0;
  };

  // These require mutex_.
  void Append(const Event& event, std::uint32_t thread);
  void AppendRead(std::uint64_t file);
  void WriteChunk();

  std::atomic<bool> on_ = false;
  TracedReads reads_ = TracedReads::kNone;  // set before on_

  std::mutex mutex_;  // guards the members below
  std::ofstream file_;
  std::string chunk_ = std::string(kHeaderSize, '\0');
  std::uint64_t begin_ = 0;
  Stamp last_;
  std::map<std::uint64_t, Reading> readings_;  // by file; the next read may continue them
  std::uint64_t number_ = 0;
  std::uint64_t previous_ = 0;
};

}  // namespace zlfs
