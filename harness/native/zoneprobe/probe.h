// Runs cycles on a device and times their commands.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"
#include "zoneprobe/cycles.h"

namespace zoneprobe {

struct Options {
  std::vector<Occupancy> resets;
  std::vector<Occupancy> finishes;
  std::uint32_t repeats = 1;       // cycles per treatment
  std::uint32_t first_writes = 1;  // timed writes after each reset
  std::uint64_t write_size = 0;    // bytes per timed write; 0: one block
  std::uint64_t fill_size = 128 << 10;
  std::uint64_t seed = 0;
};

// kFill covers all writes of a fill. kCleanup is the reset at the end of a cycle.
enum class Command : std::uint8_t { kFill, kFinish, kReset, kWrite, kCleanup };

struct Sample {
  double seconds = 0;  // time of issue since the start of the run
  std::uint32_t cycle = 0;
  std::uint32_t zone = 0;
  std::uint32_t life = 0;  // number of earlier cycles on this zone
  std::uint32_t treatment = 0;
  Command command = Command::kFill;
  std::uint32_t index = 0;  // number of a first write in its cycle, from 0
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

class Probe {
 public:
  // The device must outlive the probe. All its zones except the first must be empty. Read-only,
  // offline and conventional zones are skipped.
  Probe(zlfs::ZonedDevice* device, Options options);

  // Checks zones and sizes and plans the cycles. It writes nothing.
  zlfs::IOStatus Prepare();
  // Runs all cycles. Calls `record` for every command, in order.
  zlfs::IOStatus Run(const std::function<void(const Sample&)>& record);

  const std::vector<Treatment>& treatments() const { return treatments_; }
  const std::vector<Cycle>& cycles() const { return cycles_; }
  // Bytes written to the cycle's zone before its reset.
  std::uint64_t Occupied(const Cycle& cycle) const;
  std::uint64_t Capacity(std::uint32_t zone) const { return capacities_[zone]; }

 private:
  zlfs::IOStatus CheckSizes() const;
  zlfs::IOStatus FindZones(std::vector<std::uint32_t>* usable);
  zlfs::IOStatus RunCycle(std::uint32_t number);
  zlfs::IOStatus Fill(Sample* sample, std::uint64_t bytes);
  zlfs::IOStatus FirstWrites(Sample* sample);
  // Times `command` and passes the sample to `record_`.
  zlfs::IOStatus Timed(Sample* sample, Command what,
                       const std::function<zlfs::IOStatus()>& command);

  zlfs::ZonedDevice* const device_;
  Options options_;
  const std::vector<Treatment> treatments_;
  std::vector<Cycle> cycles_;
  std::vector<std::uint64_t> capacities_;  // by zone
  std::vector<std::uint32_t> lives_;       // by zone
  zlfs::AlignedBuffer buffer_;
  std::function<void(const Sample&)> record_;
  std::int64_t began_ = 0;  // nanoseconds, monotonic
};

}  // namespace zoneprobe
