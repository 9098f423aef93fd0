// Checks devices, parses policy options and formats volumes.

#include <algorithm>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

// Removes the field's option from the map, if present, and sets the field.
IOStatus Take(OptionMap* options, const PolicyField& field, Policy* policy) {
  const auto option = options->extract(std::string(field.name));
  if (option.empty()) return IOStatus::OK();
  const auto value = OptionValue(option.mapped(), field.words);
  if (!value || *value < field.least || *value > field.most) {
    std::string what = option.key() + "=" + option.mapped() + ", allowed:";
    for (const std::string_view word : field.words) what.append(" ").append(word);
    if (field.words.empty()) {
      what.append(" ").append(std::to_string(field.least));
      what.append(" to ").append(std::to_string(field.most));
    }
    return IOStatus::InvalidArgument("bad-option", what);
  }
  policy->*field.value = static_cast<std::uint8_t>(*value);
  return IOStatus::OK();
}

// Returns the generation in a metadata zone of an earlier volume of this device. 0: there is none.
// Null: the zone cannot be read.
std::optional<std::uint64_t> EarlierGeneration(ZonedDevice* device, std::uint32_t zone) {
  const std::size_t size = device->geometry().block_size;
  const AlignedBuffer block = AllocateAligned(size);
  Superblock earlier;
  if (!device->Read(zone, 0, size, block.get()).ok()) return std::nullopt;
  const bool found = DecodeSuperblock({block.get(), size}, &earlier).ok() &&
                     earlier.identity() == device->geometry().identity;
  return found ? earlier.generation : 0;
}

std::uint8_t Complement(std::uint8_t pct) { return static_cast<std::uint8_t>(100 - pct); }

}  // namespace

IOStatus ChangePolicy(OptionMap options, Policy* policy) {
  const bool complement = options.contains("finish_occupancy_pct");
  if (complement && options.contains("finish_remaining_pct")) {
    return IOStatus::InvalidArgument("bad-option", "two finish thresholds");
  }
  for (const PolicyField& field : kPolicyFields) RETURN_IF_ERROR(Take(&options, field, policy));
  if (complement) policy->finish_remaining_pct = Complement(policy->finish_occupancy_pct);
  policy->finish_occupancy_pct = Complement(policy->finish_remaining_pct);
  if (policy->max_active != 0 && policy->max_active < kMinActiveZones) {
    return IOStatus::InvalidArgument(
        "bad-option", "max_active=" + std::to_string(policy->max_active) + ", needed are " +
                          std::to_string(kMinActiveZones));
  }
  return NothingLeft(options);
}

IOStatus CheckLimits(const Geometry& geometry) {
  for (const std::uint32_t limit : {geometry.max_active, geometry.max_open}) {
    if (limit != 0 && limit < kMinActiveZones) {
      return IOStatus::InvalidArgument(
          "limits-too-small",
          std::to_string(limit) + " active zones, needed are " + std::to_string(kMinActiveZones));
    }
  }
  return IOStatus::OK();
}

IOStatus CheckDevice(ZonedDevice* device, std::vector<ZoneInfo>* zones) {
  const Geometry& geometry = device->geometry();
  RETURN_IF_ERROR(device->Report(0, geometry.zone_count, zones));
  std::uint32_t usable = 0;
  for (const ZoneInfo& zone : *zones) {
    if (zone.condition == ZoneCondition::kNoWritePointer) {
      return IOStatus::NotSupported("conventional-zone",
                                    "name a namespace that has sequential zones only");
    }
    usable += zone.condition != ZoneCondition::kOffline;
  }
  if (usable < kMinZones) {
    return IOStatus::InvalidArgument(
        "too-few-zones", std::to_string(usable) + ", needed are " + std::to_string(kMinZones));
  }
  return CheckLimits(geometry);
}

IOStatus Mkfs(ZonedDevice* device, const Policy& policy, const std::string& erase,
              const std::string& label) {
  if (label.size() > kMaxLabel || label.find('\0') != std::string::npos) {
    return IOStatus::InvalidArgument(
        "bad-label", "at most " + std::to_string(kMaxLabel) + " bytes are kept: " + label);
  }
  const Geometry& geometry = device->geometry();
  std::vector<ZoneInfo> zones;
  RETURN_IF_ERROR(CheckDevice(device, &zones));
  const bool erases = erase == geometry.identity;
  const auto holds_data = [&zones](std::uint32_t zone) {
    return zones[zone].condition == ZoneCondition::kFull || IsActive(zones[zone].condition);
  };
  const auto not_empty = [&geometry](std::uint32_t zone) {
    return IOStatus::InvalidArgument(
        "not-empty", "zone " + std::to_string(zone) + " of " + geometry.path +
                         " holds data; to destroy it, set erase=" + geometry.identity);
  };
  for (std::uint32_t zone = 0; zone < geometry.zone_count; ++zone) {
    if (holds_data(zone) && !erases) return not_empty(zone);
  }
  // A metadata zone that cannot be reset keeps its generation of the volume before. So the new
  // volume begins with a higher one.
  std::uint64_t generation = 0;
  bool unread = false;
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    if (zones[zone].condition == ZoneCondition::kEmpty) continue;
    const std::optional<std::uint64_t> earlier = EarlierGeneration(device, zone);
    if (earlier.value_or(0) > 0 && !erases) return not_empty(zone);
    generation = std::max(generation, earlier.value_or(0));
    unread |= !earlier;
  }
  if (unread) generation += kSkippedGenerations;
  for (std::uint32_t zone = 0; zone < geometry.zone_count; ++zone) {
    if (holds_data(zone)) RETURN_IF_ERROR(device->ResetZone(zone));
  }
  Superblock superblock{.block_size = geometry.block_size,
                        .generation = generation,
                        .zone_size = geometry.zone_size,
                        .zone_count = geometry.zone_count,
                        .policy = policy};
  superblock.SetNames(geometry.identity, label);
  RETURN_IF_ERROR(ChangePolicy({}, &superblock.policy));  // makes both thresholds consistent
  std::random_device random;
  for (char& byte : superblock.volume) byte = static_cast<char>(random());
  ZoneIo io(device);
  std::mutex state;
  MetaLog log(
      &io, &state, [](std::vector<Record>* records) { records->emplace_back(StateRecord{1}); },
      superblock, {}, 0, 0, zones[0].capacity);
  return log.RollOver();
}

}  // namespace zlfs
