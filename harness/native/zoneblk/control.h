// Adds, starts, stops and deletes a ublk device. See linux/ublk_cmd.h.

#pragma once

#include <liburing.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "zoneblk/abi.h"
#include "zoneblk/disk.h"

namespace zoneblk {

// Reports that the kernel cannot serve such a device. `code` is stable.
struct Refused : std::runtime_error {
  Refused(const char* reason, const std::string& message, std::string why)
      : std::runtime_error(message), code(reason), hint(std::move(why)) {}
  const char* code;
  std::string hint;
};

class Control {
 public:
  // Throws Refused with ublk-missing, or with ublk-no-zones if zones are needed.
  explicit Control(bool zones);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Adds a device with one queue. Returns its number. Add, Start, Stop and Delete throw
  // std::system_error.
  std::uint32_t Add(const Disk& disk, std::uint32_t depth);
  // Returns when the kernel has read the device's zones and partitions, so another thread must
  // serve.
  void Start();
  // Returns when no request is under way, so another thread must serve.
  void Stop();
  // The kernel deletes the device when its last user is gone.
  void Delete();
  // Deletes a device whose server was killed. Returns whether the device is gone.
  bool DeleteDead(std::uint32_t number);

 private:
  int Send(std::uint32_t operation, abi::ControlCommand command);
  void Check(std::uint32_t operation, const abi::ControlCommand& command, const char* what);

  int file_;
  io_uring ring_{};
  std::uint32_t number_ = ~std::uint32_t{0};
};

constexpr Bytes kMostBytes = 512 * 1024;  // of a request

}  // namespace zoneblk
