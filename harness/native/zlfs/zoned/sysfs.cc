#include "zlfs/zoned/sysfs.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <regex>
#include <system_error>

namespace zlfs {
namespace {

constexpr const char* kSpace = " \t\r\n\f\v";

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// Whether an identifier says more than zeros and punctuation.
bool IsSet(const std::string& text, const char* blank) {
  return text.find_first_not_of(blank) != std::string::npos;
}

}  // namespace

std::string Sysfs::Text(const std::string& device, const std::string& attribute) const {
  std::ifstream file(Block() / device / attribute);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::uint64_t Sysfs::Number(const std::string& device, const std::string& attribute) const {
  const std::string text = Text(device, attribute);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::uint64_t Sysfs::QueueLimit(const std::string& device, const std::string& attribute) const {
  std::uint64_t limit = Number(device, "queue/" + attribute);
  std::smatch head;
  if (!std::regex_match(device, head, std::regex("nvme(\\d+)n(\\d+)"))) return limit;
  const std::regex path("nvme" + head[1].str() + "c\\d+n" + head[2].str());
  std::error_code error;
  for (std::filesystem::directory_iterator it(Block(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (std::regex_match(name, path)) limit = std::max(limit, Number(name, "queue/" + attribute));
  }
  return limit;
}

std::string Sysfs::Identity(const std::string& device) const {
  std::string eui64 = Lower(Text(device, "eui"));
  std::erase_if(
      eui64, [](char c) { return c == '-' || std::string(kSpace).find(c) != std::string::npos; });
  if (IsSet(eui64, "0.")) return "eui." + eui64;
  const std::string nguid = Lower(Text(device, "nguid"));
  if (IsSet(nguid, "0-")) return "nguid." + nguid;
  const std::string uuid = Lower(Text(device, "uuid"));
  if (IsSet(uuid, "0-")) return "uuid." + uuid;
  for (const char* attribute : {"device/serial", "serial", "dm/uuid"}) {
    const std::string serial = Text(device, attribute);
    if (!serial.empty()) return serial + ":" + std::to_string(Number(device, "nsid"));
  }
  return device + ":" + std::to_string(Number(device, "nsid"));
}

}  // namespace zlfs
