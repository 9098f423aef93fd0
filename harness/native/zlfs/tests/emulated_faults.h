// Faults of emulated devices for tests: lower limits, broken zones, losses of power; and copies of
// devices. No function may run concurrently with other commands on the same device.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "zlfs/zoned/emulated_device.h"

namespace zlfs {

struct EmulatedFaults {
  // Changes the enforced limits, but not geometry(). Active zones stay active.
  static void SetLimits(EmulatedDevice& device, std::uint32_t max_active, std::uint32_t max_open);
  // Sets the zone to kReadOnly or kOffline, as a failing device does.
  static void BreakZone(EmulatedDevice& device, std::uint32_t zone, ZoneCondition condition);

  // The writes accepted since the last flush, oldest first. Empty unless cache=volatile.
  static const std::vector<CachedWrite>& Cached(const EmulatedDevice& device) {
    return device.cached_;
  }
  // Simulates a power loss. The first kept[i] blocks of cached write i survive if all earlier
  // writes to the same zone survive completely. Open zones become closed. Finishes and resets are
  // durable: a finished zone stays full, and its lost data reads as zeros.
  static void PowerLoss(EmulatedDevice& device, std::span<const std::uint64_t> kept);
  // As above: the first `whole` cached writes survive, and `blocks` blocks of the next one.
  static void PowerLoss(EmulatedDevice& device, std::size_t whole, std::uint64_t blocks);
  // Creates an independent in-memory copy, including the cache. An unused in-memory image with the
  // same name and shape is overwritten, because this is cheaper than new memory.
  static IOStatus Clone(const EmulatedDevice& device, const std::string& name,
                        std::unique_ptr<EmulatedDevice>* clone);
};

}  // namespace zlfs
