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
  Occupancy found{.name = std::string(text)};
  if (text == kBlockName) {
    found.kind = Occupancy::Kind::kBlock;
    return found;
  }
  if (text == kAllButBlockName) {
    found.kind = Occupancy::Kind::kAllButBlock;
    return found;
  }
  const char* const last = text.data() + text.size();
  const auto [end, error] =
      std::from_chars(text.data(), last, found.percent, std::chars_format::fixed);
  // This form also rejects NaN.
  const bool in_range = found.percent >= 0 && found.percent <= 100;
  if (error != std::errc() || end != last || !in_range) return std::nullopt;
  return found;
}

std::optional<std::vector<Occupancy>> ParseOccupancies(const std::string& text) {
  std::vector<Occupancy> found;
  for (std::size_t begin = 0; !text.empty() && begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto one = ParseOccupancy(std::string_view(text).substr(begin, end - begin));
    if (!one) return std::nullopt;
    const auto same = [&one](const Occupancy& other) { return other.name == one->name; };
    if (std::any_of(found.begin(), found.end(), same)) return std::nullopt;
    found.push_back(*one);
    begin = end + 1;
  }
  return found;
}

std::vector<Treatment> Treatments(std::span<const Occupancy> resets,
                                  std::span<const Occupancy> finishes) {
  std::vector<Treatment> found = {{.name = "fresh", .fresh = true, .occupancy = {.name = "0"}}};
  for (const Occupancy& one : resets) {
    found.push_back({.name = "reset-" + one.name, .occupancy = one});
  }
  for (const Occupancy& one : finishes) {
    found.push_back({.name = "finish-" + one.name, .finish = true, .occupancy = one});
  }
  return found;
}

std::vector<Cycle> MakeCycles(std::span<const Treatment> treatments, std::uint32_t repeats,
                              std::vector<std::uint32_t> zones, std::uint64_t seed) {
  if (zones.size() <= repeats) return {};
  Shuffle(&zones, seed, kZones);
  std::vector<Cycle> cycles;
  for (std::uint32_t which = 0; which < treatments.size(); ++which) {
    cycles.insert(cycles.end(), repeats, Cycle{.treatment = which});
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
