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

// Takes options out of a map, one by one, and remembers the first that made no sense.
class Taker {
 public:
  explicit Taker(std::map<std::string, std::string>* options) : options_(options) {}

  void Number(const char* name, std::optional<std::uint64_t>* value) {
    const auto text = Take(name);
    if (!text) return;
    *value = ParseNumber(*text);
    if (!*value) Refuse(name, *text, "a number, with K, M or G for sizes");
  }

  // One of two words; true for the second.
  std::optional<bool> Choice(const char* name, std::string_view no, std::string_view yes) {
    const auto text = Take(name);
    if (!text) return std::nullopt;
    if (*text != no && *text != yes) {
      Refuse(name, *text, std::string(no) + " or " + std::string(yes));
    }
    return *text == yes;
  }

  const IOStatus& status() const { return status_; }

 private:
  std::optional<std::string> Take(const char* name) {
    auto node = options_->extract(name);
    return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
  }

  void Refuse(const std::string& name, const std::string& text, const std::string& wanted) {
    if (status_.ok()) status_ = Bad(name + "=" + text + ": " + wanted);
  }

  std::map<std::string, std::string>* const options_;
  IOStatus status_;
};

IOStatus TakeEmulatedOptions(DeviceSpec* spec, EmulatedOptions* options) {
  Taker taker(&spec->options);
  ShapeRequest& shape = options->shape;
  taker.Number("zones", &shape.zone_count);
  taker.Number("zone_size", &shape.zone_size);
  taker.Number("zone_capacity", &shape.zone_capacity);
  taker.Number("block_size", &shape.block_size);
  taker.Number("max_active", &shape.max_active);
  taker.Number("max_open", &shape.max_open);
  shape.volatile_cache = taker.Choice("cache", "none", "volatile");
  options->power_loss = taker.Choice("power_loss", "0", "1").value_or(false);
  options->direct = taker.Choice("direct", "0", "1").value_or(false);
  return taker.status();
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
