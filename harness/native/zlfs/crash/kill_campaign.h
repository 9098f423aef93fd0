// Kills a process at random points while it writes to a device in a shared file.

#pragma once

#include <cstdint>
#include <string>

#include "zlfs/crash/model.h"

namespace zlfs::crash {

struct KillCampaign {
  LoadShape shape;
  std::string device = "zones=56&zone_size=128K&zone_capacity=96K&max_active=8";
  std::string folder;  // empty folder for images, on fast storage
  std::uint32_t points = 200;
  std::uint32_t points_per_volume = 25;
  std::uint64_t seconds = 0;  // begin no point after this time; 0: no limit
};

// Returns the exit code. Prints the summary to stdout, progress and failures to stderr.
int RunKillCampaign(const KillCampaign& campaign);

}  // namespace zlfs::crash
