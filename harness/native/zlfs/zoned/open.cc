#include "zlfs/zoned/open.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/errors.h"
#include "zlfs/zoned/kernel_device.h"

namespace zlfs {
namespace {

constexpr std::string_view kPrefix = "zlfs://";

IOStatus Bad(const std::string& why) { return MakeError(DeviceError::kBadSpec, why); }

// "64", "64K", "64M" or "64G" as bytes.
std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    const std::size_t unit = std::string_view("KMG").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return number << shift;
}

// Takes an option out; nothing when it is not there.
std::optional<std::string> Take(DeviceSpec* spec, const char* name) {
  auto node = spec->options.extract(name);
  return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
}

// An option that is one of two words; `value` becomes 1 for the second.
template <typename Value>
IOStatus TakeChoice(DeviceSpec* spec, const char* name, const char* no, const char* yes,
                    Value* value) {
  const auto text = Take(spec, name);
  if (!text) return IOStatus::OK();
  *value = *text == yes;
  if (*value || *text == no) return IOStatus::OK();
  return Bad(std::string(name) + "=" + *text + ": " + no + " or " + yes);
}

IOStatus TakeEmulatedOptions(DeviceSpec* spec, EmulatedOptions* options) {
  if (spec->options.contains("cache")) {
    std::uint64_t* const value = &options->shape["volatile_cache"];
    if (IOStatus status = TakeChoice(spec, "cache", "none", "volatile", value); !status.ok()) {
      return status;
    }
  }
  for (const ShapeField& field : kShapeFields) {
    if (field.value == &EmulatedShape::volatile_cache) continue;
    const auto text = Take(spec, field.name);
    if (!text) continue;
    const auto number = ParseNumber(*text);
    if (!number) return Bad(std::string(field.name) + "=" + *text + ": a number, sizes with KMG");
    options->shape[field.name] = *number;
  }
  IOStatus status = TakeChoice(spec, "power_loss", "0", "1", &options->power_loss);
  return status.ok() ? TakeChoice(spec, "direct", "0", "1", &options->direct) : status;
}

}  // namespace

IOStatus ParseSpec(std::string_view text, DeviceSpec* spec) {
  const std::string whole(text);
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  const std::size_t colon = text.find(':');
  const std::size_t mark = std::min(text.find('?'), text.size());
  if (colon == std::string_view::npos || colon > mark) return Bad(whole + ": no scheme");
  DeviceSpec parsed;
  parsed.scheme = text.substr(0, colon);
  parsed.name = text.substr(colon + 1, mark - colon - 1);
  if (parsed.scheme != "dev" && parsed.scheme != "mem" && parsed.scheme != "file") {
    return Bad(whole + ": the scheme is dev, mem or file");
  }
  if (parsed.name.empty()) return Bad(whole + ": no name");
  text.remove_prefix(mark);
  while (!text.empty()) {
    text.remove_prefix(1);  // ? or &
    const std::string_view option = text.substr(0, text.find('&'));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Bad(whole + ": options are name=value");
    }
    const std::string name(option.substr(0, equals));
    if (!parsed.options.emplace(name, option.substr(equals + 1)).second) {
      return Bad(whole + ": " + name + " twice");
    }
    text.remove_prefix(option.size());
  }
  *spec = std::move(parsed);
  return IOStatus::OK();
}

IOStatus OpenDevice(DeviceSpec* spec, Access access, std::unique_ptr<ZonedDevice>* device) {
  if (spec->scheme == "dev") return KernelDevice::Open(spec->name, access, device);
  EmulatedOptions options;
  if (IOStatus status = TakeEmulatedOptions(spec, &options); !status.ok()) return status;
  std::unique_ptr<EmulatedDevice> emulated;
  IOStatus status =
      spec->scheme == "mem"    ? EmulatedDevice::OpenMemory(spec->name, options, access, &emulated)
      : spec->scheme == "file" ? EmulatedDevice::OpenFile(spec->name, options, access, &emulated)
                               : Bad(spec->scheme + ": the scheme is dev, mem or file");
  *device = std::move(emulated);
  return status;
}

}  // namespace zlfs
