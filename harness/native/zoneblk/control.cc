#include "zoneblk/control.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace zoneblk {
namespace {

constexpr unsigned kSectorShift = 9;
constexpr std::uint16_t kNoQueue = 0xffff;

std::uint32_t Sectors(Bytes bytes) { return static_cast<std::uint32_t>(bytes >> kSectorShift); }

// The device has no volatile cache, because the write buffer survives a loss of power. It has no
// optimal size, because btrfs would limit its appends to that size.
abi::Parameters ParametersOf(const Disk& disk) {
  const auto shift =
      static_cast<std::uint8_t>(std::countr_zero(disk.parameters().front.logical_block));
  abi::Parameters parameters{};
  parameters.length = sizeof(parameters);
  parameters.types = abi::kHasBasic;
  parameters.basic.logical_shift = parameters.basic.physical_shift = shift;
  parameters.basic.minimal_shift = shift;
  parameters.basic.most_sectors = Sectors(kMostBytes);
  parameters.basic.sectors = disk.size() >> kSectorShift;
  if (disk.zoned()) {
    const zonemodel::ZoneParameters& zones = *disk.parameters().zones;
    parameters.types |= abi::kHasZoned;
    parameters.basic.chunk_sectors = Sectors(zones.size);
    parameters.zoned.most_open = zones.max_open;
    parameters.zoned.most_active = zones.max_active;
    parameters.zoned.most_append_sectors = Sectors(kMostBytes);
  } else {
    parameters.types |= abi::kHasDiscard;
    parameters.discard.granularity = static_cast<std::uint32_t>(disk.parameters().ftl->map_unit);
    parameters.discard.most_sectors = Sectors(Bytes{1} << 30);
    parameters.discard.most_segments = 1;
  }
  return parameters;
}

abi::ControlCommand Command(std::uint32_t device) {
  abi::ControlCommand command{};
  command.device = device;
  command.queue = kNoQueue;
  return command;
}

// A command with data that the kernel reads or writes.
template <typename Data>
abi::ControlCommand Command(std::uint32_t device, Data* data) {
  abi::ControlCommand command = Command(device);
  command.length = sizeof(Data);
  command.address = reinterpret_cast<std::uintptr_t>(data);
  return command;
}

}  // namespace

Control::Control(bool zones) : file_(open(abi::kControl, O_RDWR | O_CLOEXEC)) {
  if (file_ < 0) {
    const int error = errno;
    const char* const hint = error == EACCES
                                 ? "run as root"
                                 : "load the module: modprobe ublk_drv. It needs Linux 6.6 with "
                                   "CONFIG_BLK_DEV_UBLK; Ubuntu: linux-modules-extra";
    throw Refused("ublk-missing", std::string(abi::kControl) + ": " + std::strerror(error), hint);
  }
  if (const int error = io_uring_queue_init(4, &ring_, IORING_SETUP_SQE128); error < 0) {
    close(file_);
    throw Refused("ublk-missing", std::string("io_uring: ") + std::strerror(-error),
                  "io_uring must not be disabled: sysctl kernel.io_uring_disabled");
  }
  std::uint64_t features = 0;
  const int error = Send(abi::kGetFeatures, Command(number_, &features));
  const std::uint64_t needed = abi::kUserCopy | (zones ? abi::kZoned : 0);
  if (error < 0 || (features & needed) != needed) {
    io_uring_queue_exit(&ring_);
    close(file_);
    throw Refused("ublk-no-zones", "ublk of this kernel has no zones or copies no data",
                  "use Linux 6.6 or newer");
  }
}

Control::~Control() {
  io_uring_queue_exit(&ring_);
  close(file_);
}

int Control::Send(std::uint32_t operation, abi::ControlCommand command) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return -EBUSY;
  std::memset(sqe, 0, 2 * sizeof(*sqe));  // the ring has long entries
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = file_;
  sqe->cmd_op = operation;
  std::memcpy(sqe->cmd, &command, sizeof(command));
  io_uring_cqe* cqe = nullptr;
  int error = io_uring_submit(&ring_);
  while (error >= 0 && (error = io_uring_wait_cqe(&ring_, &cqe)) == -EINTR) {
  }
  if (error < 0) return error;
  error = cqe->res;
  io_uring_cqe_seen(&ring_, cqe);
  return error;
}

void Control::Check(std::uint32_t operation, const abi::ControlCommand& command, const char* what) {
  const int error = Send(operation, command);
  if (error < 0) throw std::system_error(-error, std::generic_category(), what);
}

std::uint32_t Control::Add(const Disk& disk, std::uint32_t depth) {
  abi::DeviceInfo info{};
  info.queues = 1;
  info.depth = static_cast<std::uint16_t>(depth);
  info.most_bytes = kMostBytes;
  info.device = number_;
  info.server = getpid();
  info.flags = abi::kUserCopy | (disk.zoned() ? abi::kZoned : 0);
  Check(abi::kAddDevice, Command(number_, &info), "add the device");
  number_ = info.device;
  abi::Parameters parameters = ParametersOf(disk);
  try {
    Check(abi::kSetParameters, Command(number_, &parameters), "set the device's parameters");
  } catch (...) {
    Delete();
    throw;
  }
  return number_;
}

void Control::Start() {
  abi::ControlCommand command = Command(number_);
  command.data = static_cast<std::uint64_t>(getpid());
  Check(abi::kStartDevice, command, "start the device");
}

void Control::Stop() { Check(abi::kStopDevice, Command(number_), "stop the device"); }

// A mounted file system keeps its device in use. Linux 6.8 and older lack kDeleteLater: there the
// deletion waits until the device is free.
void Control::Delete() {
  if (Send(abi::kDeleteLater, Command(number_)) == 0) return;
  Check(abi::kDeleteDevice, Command(number_), "delete the device");
}

// Here kDeleteDevice is no way out for Linux 6.8: a mounted file system would make the new server
// wait, and signals that stop a server are blocked.
bool Control::DeleteDead(std::uint32_t number) {
  abi::DeviceInfo info{};
  const int error = Send(abi::kGetInfo, Command(number, &info));
  if (error == -ENODEV) return true;
  return error == 0 && info.state == abi::kDead && Send(abi::kDeleteLater, Command(number)) == 0;
}

}  // namespace zoneblk
