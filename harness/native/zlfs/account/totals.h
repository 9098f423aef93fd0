// Counts of everything zlfs asked the device to do, by cause: what the ledger reports.

#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

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
};

}  // namespace zlfs
