// Serves a device: takes requests from the kernel's queue, moves their data, and completes each at
// the model's time. One thread does this. It sleeps until a request comes or the next one is due.

#pragma once

#include <liburing.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "zoneblk/abi.h"
#include "zoneblk/contents.h"
#include "zoneblk/disk.h"
#include "zoneblk/pace.h"
#include "zoneblk/status.h"

namespace zoneblk {

class Server {
 public:
  // `device`: the number of the ublk device. Throws std::system_error.
  Server(std::uint32_t device, std::uint32_t depth, Disk* disk, const Contents* contents,
         const Lateness& lateness);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Offers every place of the queue to the kernel. After that the device can be started.
  void Offer();
  // Serves until the kernel has taken all places back, as it does when the device is stopped. Calls
  // `stop` once if the process receives one of `signals`, which must be blocked.
  template <typename Stop>
  void Serve(const Identity& identity, const Socket& socket, const sigset_t& signals, Stop stop) {
    Watch(socket, signals);
    const Pace pace(Now(), identity.dilation);
    while (offered_ > 0) {
      if (Turn(identity, socket, pace)) stop();
    }
  }

 private:
  void Watch(const Socket& socket, const sigset_t& signals);
  void WatchFile(int file, std::uint64_t name);
  bool Turn(const Identity& identity, const Socket& socket, const Pace& pace);
  void Complete(const Pace& pace);
  [[nodiscard]] Time Due(const Pace& pace) const;
  void CompleteDue(const Pace& pace);
  void Wait(const Pace& pace);
  static void Waited(int result);
  void Arrived(std::uint32_t tag, Time now);
  [[nodiscard]] bool Move(std::uint32_t tag, const zoneblk::Move& move, const Pace& pace);
  [[nodiscard]] bool SendReport(std::uint32_t tag) const;
  void Commit(const Done& done);
  io_uring_sqe* NewEntry();
  void Queue(std::uint32_t operation, const abi::IoCommand& command);
  static Time Now();

  Disk* disk_;
  const Contents* contents_;
  const std::uint32_t depth_;
  int file_;
  int signals_ = -1;
  const abi::Description* descriptions_;
  io_uring ring_{};
  std::uint32_t offered_ = 0;  // places that the kernel has, or whose request is under way
  std::vector<std::pair<std::uint32_t, zoneblk::Move>> arrived_;  // tags, and what to move
  std::vector<bool> moving_;  // by tag: the data has not moved yet
  std::vector<bool> broken_;  // by tag: the data could not be moved
  std::vector<Done> done_;
  Time due_ = 0;  // when the next request is due, while data moves
  Lateness lateness_;
};

}  // namespace zoneblk
