#include "zlfs/fs/options.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

namespace zlfs {
namespace {

using rocksdb::IOStatus;

IOStatus Bad(const std::string& name, const std::string& value, const std::string& allowed) {
  return IOStatus::InvalidArgument("bad-option", name + "=" + value + ", allowed: " + allowed);
}

// Percent between low and high.
IOStatus TakePercent(OptionMap* options, const std::string& name, unsigned low, unsigned high,
                     std::uint8_t* to) {
  const auto option = options->extract(name);
  if (option.empty()) return IOStatus::OK();
  const std::string& value = option.mapped();
  unsigned number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < low || number > high) {
    return Bad(name, value, std::to_string(low) + " to " + std::to_string(high));
  }
  *to = static_cast<std::uint8_t>(number);
  return IOStatus::OK();
}

// Index of the option's value among the names.
IOStatus TakeName(OptionMap* options, const std::string& name,
                  std::span<const std::string_view> names, std::uint8_t* to) {
  const auto option = options->extract(name);
  if (option.empty()) return IOStatus::OK();
  const std::string& value = option.mapped();
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) {
    std::string allowed;
    for (const std::string_view one : names) allowed.append(" ").append(one);
    return Bad(name, value, allowed);
  }
  *to = static_cast<std::uint8_t>(found - names.begin());
  return IOStatus::OK();
}

constexpr std::string_view kSwitch[] = {"off", "on"};

}  // namespace

IOStatus ChangePolicy(OptionMap options, Policy* policy) {
  std::uint8_t occupancy = policy->finish_occupancy_pct();
  auto on_limit = static_cast<std::uint8_t>(policy->on_active_limit);
  auto victim = static_cast<std::uint8_t>(policy->gc_victim);
  auto lifetimes = static_cast<std::uint8_t>(policy->lifetimes);
  auto gc = static_cast<std::uint8_t>(policy->gc);
  if (options.contains("finish_remaining_pct") && options.contains("finish_occupancy_pct")) {
    return IOStatus::InvalidArgument("bad-option", "two finish thresholds");
  }
  IOStatus status = TakePercent(&options, "finish_occupancy_pct", 0, 100, &occupancy);
  policy->finish_remaining_pct = static_cast<std::uint8_t>(100 - occupancy);
  const auto then = [&status](IOStatus next) {
    if (status.ok()) status = std::move(next);
  };
  then(TakePercent(&options, "finish_remaining_pct", 0, 100, &policy->finish_remaining_pct));
  then(TakePercent(&options, "gc_start_pct", 1, 90, &policy->gc_start_pct));
  then(TakeName(&options, "on_active_limit", kOnActiveLimitNames, &on_limit));
  then(TakeName(&options, "gc_victim", kVictimNames, &victim));
  then(TakeName(&options, "lifetimes", kSwitch, &lifetimes));
  then(TakeName(&options, "gc", kSwitch, &gc));
  then(NothingLeft(options));
  policy->on_active_limit = static_cast<OnActiveLimit>(on_limit);
  policy->gc_victim = static_cast<Victim>(victim);
  policy->lifetimes = lifetimes != 0;
  policy->gc = gc != 0;
  return status;
}

std::string TakeOption(OptionMap* options, const std::string& name, const std::string& otherwise) {
  const auto option = options->extract(name);
  return option.empty() ? otherwise : option.mapped();
}

IOStatus NothingLeft(const OptionMap& options) {
  if (options.empty()) return IOStatus::OK();
  return IOStatus::InvalidArgument("unknown-option", options.begin()->first);
}

}  // namespace zlfs
