// A job: its clients and the commands that they send. README.md describes each field.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "model/command.h"
#include "model/parameters.h"
#include "model/zones/zones.h"

namespace zonemodel {

struct ZoneRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// A state to which a zone is set. This takes no time.
struct Fill {
  ZoneState state = ZoneState::kEmpty;
  Bytes written = 0;
  bool finished = false;
  bool used = false;
};

struct Preparation {
  ZoneRange zones;  // empty: the conventional namespace
  Fill fill;
  bool random = false;  // conventional: write at random, not in order
  std::uint32_t times = 1;
};

struct Step {
  Operation operation;
  std::uint32_t times = 1;
  std::optional<Bytes> up_to;  // repeat until the zone holds these bytes, not `times` times
};

enum class AtFull : std::uint8_t { kReset, kResetCommand, kNext };

struct ClientJob {
  std::string name;
  bool conventional = false;
  StackParameters stack;
  std::array<std::uint32_t, kOperationNames.size()> mix{};  // weights; all 0 for a sequence
  std::vector<Step> sequence;
  bool repeat = false;
  Bytes size = 4096;
  std::uint32_t depth = 1;
  ZoneRange zones;
  std::uint32_t active = 1;
  AtFull at_full = AtFull::kReset;
  std::optional<Fill> refill;
  Bytes range_begin = 0, range_end = 0;
  bool sequential = false;
  Bytes run = 0;
  std::uint64_t hot_range = 0, hot_commands = 0;  // shares of kWhole
  std::optional<Rate> rate;
  Time start = 0, end = kNever;
  std::uint64_t commands = 0, bytes = 0;  // limits; 0: none
  bool endless = false;                   // only `end` stops it
  std::uint64_t seed = 0;

  [[nodiscard]] bool Sends(Operation operation) const;
};

struct Job {
  std::string name;
  Time duration = kNever;
  Time warmup = 0;
  std::uint64_t seed = 1;
  std::vector<Preparation> prepare;
  std::vector<ClientJob> clients;
  bool zone_report = false;
};

// Throws BadInput for a job that the drive cannot play, for example with a zone beyond its end.
Job ReadJob(const Json& json, const Parameters& parameters);

}  // namespace zonemodel
