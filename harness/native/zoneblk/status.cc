#include "zoneblk/status.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "model/on_time.h"

namespace zoneblk {

using zonemodel::Json;

namespace {

constexpr std::string_view kDevice = "ublkb";

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw std::system_error(ENAMETOOLONG, std::generic_category(), path);
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

bool Listens(const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (client < 0) throw std::system_error(errno, std::generic_category(), path);
  const int error = connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool refused = error != 0 && errno == ECONNREFUSED;
  close(client);
  return !refused;
}

}  // namespace

void Lateness::Record(Time late, Time latency) {
  histogram_.Record(late);
  const Time later = late - std::min(late, wakeup_);
  if (zonemodel::IsOnTime(later, latency, dilation_)) ++on_time_;
  late_ += later;
  latency_ += latency;
}

Json Lateness::Report() const {
  const auto quantile = [this](std::uint64_t below, std::uint64_t of) {
    const auto value = histogram_.Quantile(below, of);
    return value ? Json(*value) : Json(nullptr);
  };
  const std::uint64_t count = histogram_.count();
  const double share = static_cast<double>(on_time_) / static_cast<double>(count);
  return {{"count", count},
          {"p50_ns", quantile(1, 2)},
          {"p99_ns", quantile(99, 100)},
          {"p99_9_ns", quantile(999, 1000)},
          {"max_ns", count == 0 ? Json(nullptr) : Json(histogram_.max())},
          {"on_time_share", count == 0 ? Json(nullptr) : Json(share)},
          {"late_sum_ns", late_},
          {"latency_sum_ns", latency_}};
}

Json StatusOf(const Identity& identity, const Disk& disk, const Lateness& lateness) {
  Json status = {{"schema_version", 1},           {"server", "zoneblk"},
                 {"device", identity.device},     {"process", getpid()},
                 {"uuid", identity.uuid},         {"model", identity.model},
                 {"dilation", identity.dilation}, {"overhead_ns", identity.overhead},
                 {"wakeup_ns", identity.wakeup},  {"zoned", disk.zoned()},
                 {"size", disk.size()},           {"commands", Json::object()}};
  for (std::size_t i = 0; i < kOpNames.size(); ++i) {
    const Count& count = disk.count(static_cast<Op>(i));
    status["commands"][std::string(kOpNames.at(i))] = {
        {"count", count.commands}, {"bytes", count.bytes}, {"errors", count.errors}};
  }
  const zonemodel::Media& media = disk.media();
  status["media"] = {{"host_bytes", media.host},
                     {"programmed_bytes", media.programmed},
                     {"pad_bytes", media.pad},
                     {"collected_bytes", media.moved}};
  status["lateness"] = lateness.Report();
  return status;
}

std::string NameOf(const Json& model) {
  constexpr std::uint64_t kOffset = 0xcbf29ce484222325;  // FNV-1a
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t digest = kOffset;
  for (const char each : model.dump()) {
    digest = (digest ^ static_cast<unsigned char>(each)) * kPrime;
  }
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", static_cast<unsigned>(digest >> 32));
  return model.at("name").get<std::string>() + "-" + text.data();
}

std::string NewUuid() {
  std::string uuid;
  std::ifstream("/proc/sys/kernel/random/uuid") >> uuid;
  return uuid;
}

std::vector<std::uint32_t> KilledServers(const std::string& folder) {
  std::vector<std::uint32_t> killed;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kDevice)) continue;
    std::uint32_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kDevice.size(), end, number);
    if (error != std::errc{} || rest != end) continue;
    if (!Listens(entry.path())) killed.push_back(number);
  }
  return killed;
}

std::string SocketOf(const std::string& folder, std::uint32_t device) {
  return folder + "/" + std::string(kDevice) + std::to_string(device);
}

Socket::Socket(std::string path) : path_(std::move(path)) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  const sockaddr_un address = AddressOf(path_);
  unlink(path_.c_str());  // left by a server that was killed
  file_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file_ < 0 || bind(file_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(file_, SOMAXCONN) != 0) {
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw std::system_error(error, std::generic_category(), path_);
  }
}

Socket::~Socket() {
  close(file_);
  unlink(path_.c_str());
}

// The text fits into the socket's buffer, so a client that does not read cannot block the server.
void Socket::Answer(const std::string& text) const {
  const int client = accept4(file_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  send(client, text.data(), text.size(), MSG_NOSIGNAL);
  close(client);
}

}  // namespace zoneblk
