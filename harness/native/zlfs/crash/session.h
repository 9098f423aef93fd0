// Mounting a zlfs, running the load on it, and judging what is left after a crash. Every function
// here starts threads: campaigns call them in processes of their own.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rocksdb/status.h"
#include "zlfs/crash/database.h"
#include "zlfs/crash/tap.h"

namespace zlfs::crash {

// Where things are.
struct Place {
  std::string device;    // as in a zlfs URI, without the options of the mount
  std::string aux;       // auxiliary directory
  std::string identity;  // what the device pretends to be; empty: itself
};

// Opens the device of `place` for writing.
IOStatus OpenPlace(const Place& place, std::unique_ptr<ZonedDevice>* device);

// Makes an empty zlfs on the device of `place`, which is blank.
IOStatus Format(const Place& place);

// Carries out commands and counts them in `progress`.
TappedDevice::Tap Counting(Progress* progress);

inline constexpr std::uint64_t kUntilKilled = ~std::uint64_t{0};

// Mounts the device, verifies the database against `progress`, and runs `operations` of each
// writer through the tap. Corruption: something is not as it has to be.
rocksdb::Status RunLoad(std::unique_ptr<ZonedDevice> device, const std::string& aux,
                        const LoadShape& shape, std::uint64_t operations, TappedDevice::Tap tap,
                        Progress* progress);

// Adds what the garbage collection copied in the mount that ended last.
void CountCollected(const std::string& aux, Progress* progress);

struct Judgement {
  std::uint64_t operations = 0;  // that each writer adds
  bool twice = false;            // verify again after the clean end
};

// After a crash: every invariant holds, the database opens, nothing synced is lost, every key and
// value is right, it can be written to, and after a clean end every invariant still holds.
rocksdb::Status Judge(const Place& place, const LoadShape& shape, const Judgement& judgement,
                      Progress* progress);

}  // namespace zlfs::crash
