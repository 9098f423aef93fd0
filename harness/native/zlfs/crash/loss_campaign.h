// Losses of power after every command of a recorded load. Of the device's volatile cache, either
// nothing or a torn part survives.

#pragma once

#include <cstdint>
#include <string>

#include "zlfs/crash/model.h"

namespace zlfs::crash {

struct LossCampaign {
  LoadShape shape;
  std::string device = "zones=56&zone_size=128K&zone_capacity=96K&max_active=8";
  std::string folder;  // empty folder for the trace and auxiliary directories, on fast storage
  std::string trace;   // replays this trace instead of recording a new one
  std::uint64_t writes = 5000;            // minimum to record
  std::uint64_t commands_per_life = 900;  // mean number of commands before a kill
  std::uint64_t first = 0;                // first and last command to test
  std::uint64_t last = ~std::uint64_t{0};
  std::uint64_t stride = 1;  // test every n-th command
  std::uint32_t tears = 2;   // seeded tears per command, besides the whole loss
  std::uint32_t jobs = 2;
  std::uint64_t seconds = 0;  // test no command after this time; 0: no limit
};

// Returns the exit code. Prints the summary to stdout, progress and failures to stderr.
int RunLossCampaign(const LossCampaign& campaign);

}  // namespace zlfs::crash
