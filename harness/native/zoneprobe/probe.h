// Carries out cycles on a device and times their commands.

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
  std::uint32_t repeats = 1;       // of each treatment
  std::uint32_t first_writes = 1;  // timed writes behind each reset
  std::uint64_t write_size = 0;    // of those, in bytes; 0: a block
  std::uint64_t fill_size = 128 << 10;
  std::uint64_t seed = 0;
};

// kFill counts all writes of a fill as one; kCleanup is the reset at the end of a cycle.
enum class Command : std::uint8_t { kFill, kFinish, kReset, kWrite, kCleanup };

struct Sample {
  double seconds = 0;  // from the beginning to when the command was issued
  std::uint32_t cycle = 0;
  std::uint32_t zone = 0;
  std::uint32_t life = 0;  // cycles that this zone went through before
  std::uint32_t treatment = 0;
  Command command = Command::kFill;
  std::uint32_t index = 0;  // of a write behind the reset, from 0
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};

class Probe {
 public:
  // The device must outlive it, and all its zones be empty but the first. Zones that the device
  // gave up are left out.
  Probe(zlfs::ZonedDevice* device, Options options);

  // Checks zones and sizes, and decides on the cycles. Nothing is written yet.
  zlfs::IOStatus Prepare();
  // Does all of it. `record` is called for every command, in their order.
  zlfs::IOStatus Run(const std::function<void(const Sample&)>& record);

  const std::vector<Treatment>& treatments() const { return treatments_; }
  const std::vector<Cycle>& cycles() const { return cycles_; }
  // Bytes that a treatment puts into the zone of a cycle before its reset.
  std::uint64_t Occupied(const Cycle& cycle) const;
  std::uint64_t Capacity(std::uint32_t zone) const { return capacities_[zone]; }

 private:
  zlfs::IOStatus CheckSizes() const;
  zlfs::IOStatus FindZones(std::vector<std::uint32_t>* usable);
  zlfs::IOStatus RunCycle(std::uint32_t number);
  zlfs::IOStatus Fill(Sample* sample, std::uint64_t bytes);
  zlfs::IOStatus FirstWrites(Sample* sample);
  // Times `command` and hands the sample over.
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
