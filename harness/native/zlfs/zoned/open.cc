#include "zlfs/zoned/open.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>
#include <system_error>
#include <utility>

#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/modelled_device.h"

namespace zlfs {
namespace {

IOStatus Bad(const std::string& why) { return MakeError(DeviceError::kBadSpec, why); }

// Moves the options of emulated devices from the map to `request`.
IOStatus TakeShape(OptionMap* options, ShapeRequest* request) {
  for (const ShapeField& field : kShapeFields) {
    const auto node = options->extract(field.name);
    if (node.empty()) continue;
    const auto value = OptionValue(node.mapped(), field.words);
    if (!value) {
      return Bad(node.key() + "=" + node.mapped() +
                 ": a number, with K, M or G if it is a size; none or volatile if it is the cache");
    }
    (*request)[field.name] = *value;
  }
  return IOStatus::OK();
}

}  // namespace

std::optional<std::uint64_t> OptionValue(std::string_view text,
                                         std::span<const std::string_view> words) {
  if (!words.empty()) {
    const auto word = std::ranges::find(words, text);
    if (word == words.end()) return std::nullopt;
    return static_cast<std::uint64_t>(word - words.begin());
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

IOStatus NothingLeft(const OptionMap& options) {
  if (options.empty()) return IOStatus::OK();
  return IOStatus::InvalidArgument("unknown-option", options.begin()->first);
}

IOStatus OpenDevice(const std::string& text, Access access, OptionMap* options,
                    std::unique_ptr<ZonedDevice>* device) {
  static const std::regex kForm(
      "(?:zlfs://)?(dev|mem|file|model):([^?]+)(?:\\?([^=&]+=[^&]*(?:&[^=&]+=[^&]*)*))?");
  std::smatch parts;
  if (!std::regex_match(text, parts, kForm)) {
    return Bad(text + ": is not dev:, mem:, file: or model:, a name, and perhaps ?option=value&…");
  }
  OptionMap left;
  std::istringstream given(parts[3]);
  for (std::string option; std::getline(given, option, '&');) {
    const std::string name = option.substr(0, option.find('='));
    if (!left.emplace(name, option.substr(name.size() + 1)).second) {
      return Bad(text + ": " + name + " twice");
    }
  }
  const bool modelled = parts[1] == "model";
  std::unique_ptr<ZonedDevice> opened;
  if (modelled) RETURN_IF_ERROR(ModelledDevice::Open(parts[2], access, &left, &opened));
  const bool shaped = parts[1] == "mem" || parts[1] == "file";
  ShapeRequest request;
  if (shaped) RETURN_IF_ERROR(TakeShape(&left, &request));
  if (options == nullptr) RETURN_IF_ERROR(NothingLeft(left));
  if (options != nullptr) *options = std::move(left);
  if (modelled) {
    *device = std::move(opened);
    return IOStatus::OK();
  }
  if (parts[1] == "dev") return OpenKernelDevice(parts[2], access, device);
  const DeviceKind kind = parts[1] == "mem" ? DeviceKind::kMemory : DeviceKind::kFile;
  std::unique_ptr<EmulatedDevice> emulated;
  RETURN_IF_ERROR(EmulatedDevice::Open(kind, parts[2], request, access, &emulated));
  *device = std::move(emulated);
  return IOStatus::OK();
}

}  // namespace zlfs
