// The report of a server about its device: one JSON object for each connection to its socket.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/fields.h"
#include "model/load/histogram.h"
#include "zoneblk/disk.h"

namespace zoneblk {

struct Identity {
  std::string device;  // ublkb0
  std::string uuid;
  std::string model;  // its name and a digest of its parameters
  std::uint64_t dilation;
  Time overhead;  // on the kernel's clock
  Time wakeup;    // the part of the overhead after the due time
};

// How late completions were, on the kernel's clock.
class Lateness {
 public:
  // The server needs `wakeup` after the due time. The overhead that was subtracted from the
  // latencies contains it.
  Lateness(Time wakeup, std::uint64_t dilation) : wakeup_(wakeup), dilation_(dilation) {}
  // `late` is the time after the due time, `latency` the latency in the model. Both are on the
  // kernel's clock.
  void Record(Time late, Time latency);
  [[nodiscard]] zonemodel::Json Report() const;

 private:
  const Time wakeup_;
  const std::uint64_t dilation_;
  zonemodel::Histogram histogram_;
  std::uint64_t on_time_ = 0;  // at most 2 % or 1 us of the model later than the wake-up
  Time late_ = 0;              // sum of times later than the wake-up
  Time latency_ = 0;           // sum
};

zonemodel::Json StatusOf(const Identity& identity, const Disk& disk, const Lateness& lateness);

// The model's name and a digest of all its parameters.
std::string NameOf(const zonemodel::Json& model);
std::string NewUuid();

// Returns the devices whose servers were killed: their sockets in `folder` have no listener.
std::vector<std::uint32_t> KilledServers(const std::string& folder);
std::string SocketOf(const std::string& folder, std::uint32_t device);

// A Unix socket. The constructor makes its folder, the destructor removes its file.
class Socket {
 public:
  // Throws std::system_error.
  explicit Socket(std::string path);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int file() const { return file_; }
  // Answers one connection, if there is one.
  void Answer(const std::string& text) const;

 private:
  const std::string path_;
  int file_ = -1;
};

}  // namespace zoneblk
