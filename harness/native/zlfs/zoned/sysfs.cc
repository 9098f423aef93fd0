#include "zlfs/zoned/sysfs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <regex>
#include <system_error>

namespace zlfs {

constexpr std::string_view kSpace = " \t\r\n\f\v";

std::string Sysfs::Text(const std::string& device, const std::string& attribute) const {
  std::ifstream file(Block() / device / attribute);
  std::string text;
  std::getline(file >> std::ws, text);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
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
  for (const std::string kind : {"eui", "nguid", "uuid"}) {
    std::string id = Text(device, kind);
    for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (kind == "eui")
      std::erase_if(id, [](char c) { return c == '-' || kSpace.find(c) != kSpace.npos; });
    if (id.find_first_not_of("0-.") != std::string::npos) return kind + "." + id;
  }
  std::string serial = device;
  for (const char* attribute : {"dm/uuid", "serial", "device/serial"}) {
    if (const std::string text = Text(device, attribute); !text.empty()) serial = text;
  }
  return serial + ":" + std::to_string(Number(device, "nsid"));
}

}  // namespace zlfs
