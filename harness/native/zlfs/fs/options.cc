// Policies as options.

#include <charconv>
#include <string_view>

#include "zlfs/fs/volume.h"

namespace zlfs {
namespace {

// Gives the field the value that its option stands for, if it is there.
IOStatus Take(OptionMap* options, const PolicyField& field, Policy* policy) {
  const auto option = options->extract(std::string(field.name));
  if (option.empty()) return IOStatus::OK();
  const std::string& text = option.mapped();
  const char* const end = text.data() + text.size();
  unsigned value = 0;
  bool known = false;
  std::string allowed;
  if (field.words.empty()) {
    const auto [parsed, error] = std::from_chars(text.data(), end, value);
    known = error == std::errc() && parsed == end && value >= field.least && value <= field.most;
    allowed = " " + std::to_string(field.least) + " to " + std::to_string(field.most);
  }
  for (const std::string_view word : field.words) {
    allowed.append(" ").append(word);
    if (word == text) known = true;
    if (!known) ++value;
  }
  if (!known) {
    return IOStatus::InvalidArgument("bad-option",
                                     option.key() + "=" + text + ", allowed:" + allowed);
  }
  policy->*field.value = static_cast<std::uint8_t>(value);
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
  return NothingLeft(options);
}

}  // namespace zlfs
