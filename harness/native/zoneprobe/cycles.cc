#include "zoneprobe/cycles.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "kvmix/source/random.h"

namespace zoneprobe {
namespace {

constexpr std::string_view kBlockName = "block";
constexpr std::string_view kAllButBlockName = "all-but-block";

// Separate streams keep the draws for zones and for the order independent.
enum Stream : std::uint64_t { kZones, kOrder };

template <typename T>
void Shuffle(std::vector<T>* items, std::uint64_t seed, Stream stream) {
  kvmix::Random random(seed, stream);
  for (std::size_t left = items->size(); left > 1; --left) {
    std::swap((*items)[left - 1], (*items)[random.Below(left)]);
  }
}

}  // namespace

std::uint64_t Occupancy::Bytes(std::uint64_t capacity, std::uint64_t block) const {
  if (kind == Kind::kBlock) return block;
  if (kind == Kind::kAllButBlock) return capacity - block;
  const auto bytes = static_cast<std::uint64_t>(percent / 100 * static_cast<double>(capacity));
  return std::min(bytes, capacity) / block * block;
}

std::optional<Occupancy> ParseOccupancy(std::string_view text) {
  Occupancy occupancy{.name = std::string(text)};
  if (text == kBlockName) {
    occupancy.kind = Occupancy::Kind::kBlock;
    return occupancy;
  }
  if (text == kAllButBlockName) {
    occupancy.kind = Occupancy::Kind::kAllButBlock;
    return occupancy;
  }
  const char* const last = text.data() + text.size();
  const auto [end, error] =
      std::from_chars(text.data(), last, occupancy.percent, std::chars_format::fixed);
  // This form also rejects NaN.
  const bool in_range = occupancy.percent >= 0 && occupancy.percent <= 100;
  if (error != std::errc() || end != last || !in_range) return std::nullopt;
  return occupancy;
}

std::optional<std::vector<Occupancy>> ParseOccupancies(const std::string& text) {
  std::vector<Occupancy> occupancies;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto occupancy = ParseOccupancy(std::string_view(text).substr(begin, end - begin));
    if (!occupancy) return std::nullopt;
    const auto same = [&occupancy](const Occupancy& other) {
      return other.name == occupancy->name;
    };
    if (std::any_of(occupancies.begin(), occupancies.end(), same)) return std::nullopt;
    occupancies.push_back(*occupancy);
    begin = end + 1;
  }
  return occupancies;
}

std::vector<Treatment> Treatments(std::span<const Occupancy> resets,
                                  std::span<const Occupancy> finishes) {
  std::vector<Treatment> treatments = {
      {.name = "fresh", .fresh = true, .occupancy = {.name = "0"}}};
  for (const Occupancy& occupancy : resets) {
    treatments.push_back({.name = "reset-" + occupancy.name, .occupancy = occupancy});
  }
  for (const Occupancy& occupancy : finishes) {
    treatments.push_back(
        {.name = "finish-" + occupancy.name, .finish = true, .occupancy = occupancy});
  }
  return treatments;
}

std::vector<Cycle> MakeCycles(std::span<const Treatment> treatments, std::uint32_t repeats,
                              std::vector<std::uint32_t> zones, std::uint64_t seed) {
  if (zones.size() <= repeats) return {};
  Shuffle(&zones, seed, kZones);
  std::vector<Cycle> cycles;
  for (std::uint32_t treatment = 0; treatment < treatments.size(); ++treatment) {
    cycles.insert(cycles.end(), repeats, Cycle{.treatment = treatment});
  }
  Shuffle(&cycles, seed, kOrder);
  std::size_t fresh = 0;
  std::size_t turn = repeats;
  for (Cycle& cycle : cycles) {
    if (treatments[cycle.treatment].fresh) {
      cycle.zone = zones[fresh++];
      continue;
    }
    cycle.zone = zones[turn++];
    if (turn == zones.size()) turn = repeats;
  }
  return cycles;
}

}  // namespace zoneprobe
