// Counts of a modelled drive since its contents were made, by all processes together. They are the
// witness of a run without a kernel device (harness/observe/native_drive.py reads them).
//
// The file has one 64-bit word per DriveCount, in their order, little-endian. Each process maps it,
// so a killed process loses nothing. The file `<name>.zones` has one line per zone command, and per
// first and last write of a zone:
//
//   <nanoseconds of CLOCK_MONOTONIC at its end> <zone> <action> <nanoseconds that it took> <bytes
//   in the zone before>

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "zlfs/zoned/errors.h"

namespace zlfs {

enum class DriveCount : std::uint8_t {
  kVersion,
  // Writes to and reads of the contents, in requests as the model gets them.
  kStores,  // zone commands too
  kStoredBytes,
  kLoads,
  kLoadedBytes,
  // Commands that the model completed without an error.
  kReads,
  kReadBytes,
  kWrites,
  kWriteBytes,
  kReports,
  kOpens,
  kCloses,
  kFinishes,
  kResets,
  // Bytes that the model programs to its flash.
  kHostBytes,
  kPadBytes,
  // Punctuality. Times are in nanoseconds of this machine's clock.
  kRequests,
  kOnTime,
  kLate,     // sum of the waits of callers beyond the model's latency
  kLatency,  // sum of the model's latencies
  kBusy,     // time with a request under way
  kCount
};

class DriveCounts {
 public:
  // Counts in memory.
  DriveCounts() : words_(own_.data()) {}
  // Counts in this file, which is made if it is missing.
  static IOStatus Open(const std::string& path, std::unique_ptr<DriveCounts>* counts);
  ~DriveCounts();
  DriveCounts(const DriveCounts&) = delete;
  DriveCounts& operator=(const DriveCounts&) = delete;

  void Add(DriveCount count, std::uint64_t by) {
    words_[static_cast<std::size_t>(count)].fetch_add(by, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t Get(DriveCount count) const {
    return words_[static_cast<std::size_t>(count)].load(std::memory_order_relaxed);
  }
  // Appends a line about a command that has just ended.
  void NoteZone(std::uint32_t zone, std::string_view action, std::uint64_t nanoseconds,
                std::uint64_t written);

 private:
  using Word = std::atomic<std::uint64_t>;
  using Words = std::array<Word, static_cast<std::size_t>(DriveCount::kCount)>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

  Words own_{};  // used if no file is mapped
  Word* words_;
  int zones_ = -1;  // the file of zone commands
};

}  // namespace zlfs
