// Loss of power at every command of a recorded load: of what the device's volatile cache holds,
// nothing survives, or a torn part.

#pragma once

#include <cstdint>
#include <string>

#include "zlfs/crash/model.h"

namespace zlfs::crash {

struct LossCampaign {
  LoadShape shape;
  std::string device = "zones=56&zone_size=128K&zone_capacity=96K&max_active=8";
  std::string folder;           // for trace and auxiliary directories, empty and on fast storage
  std::string trace;            // an earlier trace instead of a new one
  std::uint64_t writes = 5000;  // at least so many are recorded
  std::uint64_t commands_per_life = 900;  // then the recorded process dies, and another recovers
  std::uint64_t first = 0;                // commands to look at
  std::uint64_t last = ~std::uint64_t{0};
  std::uint32_t tears = 2;  // seeded ones at each command, beside the whole loss
  std::uint32_t jobs = 2;
};

// Returns the exit code. Its summary goes to stdout, progress and failures to stderr.
int RunLossCampaign(const LossCampaign& campaign);

}  // namespace zlfs::crash
