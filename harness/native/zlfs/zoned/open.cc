#include "zlfs/zoned/open.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/kernel_device.h"

namespace zlfs {
namespace {

constexpr std::string_view kPrefix = "zlfs://";

IOStatus Bad(const std::string& why) { return MakeError(DeviceError::kBadSpec, why); }

// "64", "64K", "64M" or "64G" as bytes; the cache's words.
std::optional<std::uint64_t> ParseValue(const ShapeField& field, std::string_view text) {
  if (field.value == &EmulatedShape::cache) {
    if (text != "none" && text != "volatile") return std::nullopt;
    return text == "volatile" ? 1 : 0;
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::size_t place = std::string_view("KMG").find(unit.empty() ? 'K' : unit.front());
  const std::size_t shift = unit.empty() ? 0 : 10 * (place + 1);
  const bool known = unit.size() <= 1 && place != std::string_view::npos;
  if (error != std::errc() || !known || number > (~std::uint64_t{0} >> shift)) return std::nullopt;
  return number << shift;
}

// Takes the options of emulated devices out of the specification.
IOStatus TakeShape(DeviceSpec* spec, ShapeRequest* request) {
  for (const ShapeField& field : kShapeFields) {
    const auto node = spec->options.extract(field.name);
    if (node.empty()) continue;
    const auto value = ParseValue(field, node.mapped());
    if (!value) {
      return Bad(node.key() + "=" + node.mapped() +
                 ": a number, with K, M or G if it is a size; none or volatile if it is the cache");
    }
    (*request)[field.name] = *value;
  }
  return IOStatus::OK();
}

}  // namespace

IOStatus ParseSpec(std::string_view text, DeviceSpec* spec) {
  const std::string whole(text);
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  const std::string_view place = text.substr(0, text.find('?'));
  DeviceSpec parsed;
  parsed.scheme = place.substr(0, place.find(':'));
  parsed.name = place.substr(std::min(parsed.scheme.size() + 1, place.size()));
  if (parsed.scheme != "dev" && parsed.scheme != "mem" && parsed.scheme != "file") {
    return Bad(whole + ": begins with none of dev:, mem: and file:");
  }
  if (parsed.name.empty()) return Bad(whole + ": no name");
  text.remove_prefix(place.size());
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
  if (spec->scheme == "dev") return OpenKernelDevice(spec->name, access, device);
  ShapeRequest request;
  IOStatus status = TakeShape(spec, &request);
  if (!status.ok()) return status;
  const DeviceKind kind = spec->scheme == "mem" ? DeviceKind::kMemory : DeviceKind::kFile;
  std::unique_ptr<EmulatedDevice> emulated;
  status = EmulatedDevice::Open(kind, spec->name, request, access, &emulated);
  *device = std::move(emulated);
  return status;
}

}  // namespace zlfs
