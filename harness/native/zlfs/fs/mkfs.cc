#include <mutex>
#include <random>

#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

IOStatus Empty(ZonedDevice* device, const std::string& erase) {
  const Geometry& geometry = device->geometry();
  std::vector<ZoneInfo> zones;
  if (IOStatus status = device->Report(0, geometry.zone_count, &zones); !status.ok()) return status;
  for (std::uint32_t zone = 0; zone < zones.size(); ++zone) {
    if (zones[zone].condition == ZoneCondition::kEmpty ||
        zones[zone].condition == ZoneCondition::kOffline ||
        zones[zone].condition == ZoneCondition::kReadOnly) {
      continue;
    }
    if (erase != geometry.identity) {
      return IOStatus::InvalidArgument(
          "not-empty", "zone " + std::to_string(zone) + " of " + geometry.path +
                           " holds data; to destroy it, say erase=" + geometry.identity);
    }
    if (IOStatus status = device->ResetZone(zone); !status.ok()) return status;
  }
  return IOStatus::OK();
}

}  // namespace

IOStatus CheckDevice(ZonedDevice* device) {
  const Geometry& geometry = device->geometry();
  std::vector<ZoneInfo> zones;
  if (IOStatus status = device->Report(0, geometry.zone_count, &zones); !status.ok()) return status;
  std::uint32_t usable = 0;
  for (const ZoneInfo& zone : zones) {
    if (zone.type == ZoneType::kConventional) {
      return IOStatus::NotSupported("conventional-zone",
                                    "name a namespace that has sequential zones only");
    }
    usable += zone.condition != ZoneCondition::kOffline;
  }
  if (usable < kMinZones) {
    return IOStatus::InvalidArgument(
        "too-few-zones", std::to_string(usable) + ", needed are " + std::to_string(kMinZones));
  }
  for (const std::uint32_t limit : {geometry.max_active, geometry.max_open}) {
    if (limit != 0 && limit < kMinActiveZones) {
      return IOStatus::InvalidArgument(
          "limits-too-small",
          std::to_string(limit) + " active zones, needed are " + std::to_string(kMinActiveZones));
    }
  }
  return IOStatus::OK();
}

IOStatus Mkfs(ZonedDevice* device, const Policy& policy, const std::string& erase,
              const std::string& label) {
  if (label.size() > kMaxLabel || label.find('\0') != std::string::npos) {
    return IOStatus::InvalidArgument(
        "bad-label", "at most " + std::to_string(kMaxLabel) + " bytes are kept: " + label);
  }
  if (IOStatus status = CheckDevice(device); !status.ok()) return status;
  if (IOStatus status = Empty(device, erase); !status.ok()) return status;
  const Geometry& geometry = device->geometry();
  Superblock superblock{.block_size = geometry.block_size,
                        .generation = 0,
                        .volume = {},
                        .zone_size = geometry.zone_size,
                        .zone_count = geometry.zone_count,
                        .policy = policy,
                        .identity = geometry.identity,
                        .label = label};
  std::random_device random;
  for (char& byte : superblock.volume) byte = static_cast<char>(random());
  std::vector<ZoneInfo> zones;
  if (IOStatus status = device->Report(0, kMetadataZones, &zones); !status.ok()) return status;
  ZoneIo io(device);
  std::mutex state;
  MetaLog log(
      &io, &state, [](std::vector<Record>* records) { records->emplace_back(StateRecord{1}); },
      superblock, kMetadataZones - 1, 0, zones[0].capacity);
  return log.RollOver();
}

}  // namespace zlfs
