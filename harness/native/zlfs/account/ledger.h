// Counts of everything zlfs asked the device to do, by cause.

#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace zlfs {

enum class Cause : std::uint8_t { kWal, kFlush, kCompaction, kOther, kImport, kGc, kMetadata };
inline constexpr std::string_view kCauseNames[] = {"wal",    "flush", "compaction", "other",
                                                   "import", "gc",    "metadata"};
inline constexpr std::size_t kCauses = std::size(kCauseNames);

enum class FinishCause : std::uint8_t { kThreshold, kActiveLimit, kMetadata, kImport };
inline constexpr std::string_view kFinishNames[] = {"threshold", "active_limit", "metadata",
                                                    "import"};
inline constexpr std::size_t kFinishCauses = std::size(kFinishNames);

struct Totals {
  struct Bytes {
    std::uint64_t payload = 0;
    std::uint64_t pad = 0;
  };
  struct Finishes {
    std::uint64_t count = 0;
    std::uint64_t given_up = 0;  // bytes of capacity
  };
  std::array<Bytes, kCauses> written{};
  std::array<Finishes, kFinishCauses> finishes{};
  std::uint64_t resets_data = 0;
  std::uint64_t resets_metadata = 0;
  std::uint64_t flushes = 0;
  std::uint64_t collected_zones = 0;

  std::uint64_t BytesWritten() const {
    std::uint64_t sum = 0;
    for (const Bytes& bytes : written) sum += bytes.payload + bytes.pad;
    return sum;
  }
};

// A zone at the end of a life: when it was finished, or reset.
struct Retirement {
  std::uint32_t zone = 0;
  bool reset = false;
  std::uint64_t written = 0;
  std::uint64_t live = 0;
  std::uint64_t age = 0;  // bytes written to the device since the zone was opened
};

class Ledger {
 public:
  void Wrote(Cause cause, std::uint64_t payload, std::uint64_t pad) {
    const std::lock_guard lock(mutex_);
    auto& bytes = totals_.written[static_cast<std::size_t>(cause)];
    bytes.payload += payload;
    bytes.pad += pad;
  }
  void Finished(FinishCause cause, std::uint64_t given_up) {
    const std::lock_guard lock(mutex_);
    auto& finishes = totals_.finishes[static_cast<std::size_t>(cause)];
    ++finishes.count;
    finishes.given_up += given_up;
  }
  void Reset(bool metadata) {
    const std::lock_guard lock(mutex_);
    ++(metadata ? totals_.resets_metadata : totals_.resets_data);
  }
  void Flushed() {
    const std::lock_guard lock(mutex_);
    ++totals_.flushes;
  }
  void Collected() {
    const std::lock_guard lock(mutex_);
    ++totals_.collected_zones;
  }
  void Retired(const Retirement& retirement) {
    const std::lock_guard lock(mutex_);
    retired_.push_back(retirement);
  }

  Totals totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
  }
  // What was retired since the last call.
  std::vector<Retirement> TakeRetired() {
    const std::lock_guard lock(mutex_);
    return std::exchange(retired_, {});
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  Totals totals_;
  std::vector<Retirement> retired_;
};

}  // namespace zlfs
