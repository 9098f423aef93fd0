// Policies as options.

#include <string_view>

#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

// Gives the field the value that its option stands for, if it is there.
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

}  // namespace zlfs
