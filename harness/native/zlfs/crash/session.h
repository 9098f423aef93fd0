// Mounts a zlfs, runs the load on it, and checks its state after a crash. All functions here start
// threads, so campaigns call them in child processes.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rocksdb/status.h"
#include "zlfs/alloc/policy.h"
#include "zlfs/crash/database.h"
#include "zlfs/crash/tap.h"

namespace zlfs::crash {

// A device with its auxiliary directory.
struct Place {
  std::string device;    // as in a zlfs URI, without the mount options
  std::string aux;       // auxiliary directory
  std::string identity;  // the identity that the device reports; empty: its own
};

// Opens the device of `place` for writing.
IOStatus OpenPlace(const Place& place, std::unique_ptr<ZonedDevice>* device);

// Makes an empty zlfs on the blank device of `place`.
IOStatus Format(const Place& place, const Policy& policy);

// Returns a tap that carries out commands and counts them in `progress`.
TappedDevice::Tap Counting(Progress* progress);

inline constexpr std::uint64_t kUntilKilled = ~std::uint64_t{0};

// Mounts the device through the tap, verifies the database against `progress`, and runs
// `operations` per writer. Returns Corruption if the verification fails.
rocksdb::Status RunLoad(std::unique_ptr<ZonedDevice> device, const std::string& aux,
                        const LoadShape& shape, std::uint64_t operations, TappedDevice::Tap tap,
                        Progress* progress);

// Adds the bytes that the collector copied during the last mount.
void CountCollected(const std::string& aux, Progress* progress);

struct Judgement {
  std::uint64_t operations = 0;  // added by each writer
  bool twice = false;            // verify again after the clean close
};

// Checks the state after a crash: every invariant holds, the database opens, no synced operation is
// lost, and all keys and values are correct. Then checks that the database accepts writes, and that
// every invariant holds after a clean close.
rocksdb::Status Judge(const Place& place, const LoadShape& shape, const Judgement& judgement,
                      Progress* progress);

}  // namespace zlfs::crash
