#include "zlfs/zoned/modelled_device.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <mutex>
#include <utility>

#include "model/parameters.h"
#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

using Clock = std::chrono::steady_clock;
using zonemodel::Command;
using zonemodel::Operation;
using zonemodel::Status;

// The kernel splits larger requests, also those to a zoneblk device.
constexpr std::uint64_t kMostBytes = 512 * 1024;
constexpr std::uint64_t kMostDilation = 1000;

IOStatus ReadModel(const std::string& file, zonemodel::Parameters* parameters) {
  std::ifstream stream(file);
  if (!stream) return MakeError(DeviceError::kMissing, file + ": cannot be read");
  const auto json = zonemodel::Json::parse(stream, nullptr, false);
  if (json.is_discarded()) {
    return MakeError(DeviceError::kBadSpec, file + ": no JSON; `zonelab model export` writes it");
  }
  try {
    *parameters = zonemodel::ReadParameters(json);
  } catch (const zonemodel::BadInput& bad) {
    return MakeError(DeviceError::kBadSpec, file + ": " + bad.what());
  }
  if (parameters->zones) return IOStatus::OK();
  return MakeError(DeviceError::kBadSpec, file + ": the model has no zones");
}

ShapeRequest ShapeOf(const zonemodel::Parameters& parameters) {
  const zonemodel::ZoneParameters& zones = *parameters.zones;
  return {{"block_size", parameters.front.logical_block},
          {"zones", zones.count},
          {"zone_size", zones.size},
          {"zone_capacity", zones.capacity},
          {"max_active", zones.max_active},
          {"max_open", zones.max_open}};
}

// Finds or makes the clock of these contents. A clock lives as long as the process, as contents in
// memory do.
IOStatus ClockOf(const zonemodel::Parameters& parameters, std::uint64_t dilation,
                 const std::string& counts, ZonedDevice* contents,
                 std::shared_ptr<DriveClock>* found) {
  static std::mutex mutex;
  static auto* const clocks = new std::map<std::string, std::shared_ptr<DriveClock>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<DriveClock>& clock = (*clocks)[contents->geometry().identity];
  if (clock != nullptr) {
    *found = clock;
    return IOStatus::OK();
  }
  auto counted = std::make_unique<DriveCounts>();
  if (!counts.empty()) RETURN_IF_ERROR(DriveCounts::Open(counts, &counted));
  *found = clock = std::make_shared<DriveClock>(parameters, dilation, std::move(counted));
  std::vector<ZoneInfo> zones;
  contents->Report(0, contents->geometry().zone_count, &zones).PermitUncheckedError();
  for (std::uint32_t zone = 0; zone < zones.size(); ++zone) clock->Prepare(zone, zones[zone]);
  return IOStatus::OK();
}

Operation OperationTo(ZoneCondition condition) {
  switch (condition) {
    case ZoneCondition::kExplicitlyOpen:
      return Operation::kOpen;
    case ZoneCondition::kClosed:
      return Operation::kClose;
    case ZoneCondition::kFull:
      return Operation::kFinish;
    default:
      return Operation::kReset;
  }
}

// A command for a whole zone.
Command Whole(Operation operation, std::uint32_t zone) {
  return {.operation = operation, .conventional = false, .zone = zone, .offset = 0, .bytes = 0};
}

std::uint64_t CommandsOf(std::uint64_t bytes) { return (bytes + kMostBytes - 1) / kMostBytes; }

}  // namespace

IOStatus ModelledDevice::Open(const std::string& file, Access access, OptionMap* options,
                              std::unique_ptr<ZonedDevice>* device) {
  zonemodel::Parameters parameters;
  RETURN_IF_ERROR(ReadModel(file, &parameters));
  const auto take = [options](const char* name) {
    const auto node = options->extract(name);
    return node.empty() ? std::string() : node.mapped();
  };
  const std::string given = take("dilation");
  const std::optional<std::uint64_t> dilation = given.empty() ? 1 : OptionValue(given, {});
  if (!dilation || *dilation < 1 || *dilation > kMostDilation) {
    return MakeError(DeviceError::kBadSpec, "dilation=" + given + ": a number from 1 to 1000");
  }
  const std::string path = take("contents");
  const std::string counts = take("counts");
  const DeviceKind kind = path.empty() ? DeviceKind::kMemory : DeviceKind::kFile;
  std::unique_ptr<EmulatedDevice> contents;
  RETURN_IF_ERROR(EmulatedDevice::Open(kind, path.empty() ? file : path, ShapeOf(parameters),
                                       access, &contents));
  std::shared_ptr<DriveClock> clock;
  RETURN_IF_ERROR(ClockOf(parameters, *dilation, counts, contents.get(), &clock));
  device->reset(new ModelledDevice(std::move(contents), access, std::move(clock)));
  return IOStatus::OK();
}

ModelledDevice::ModelledDevice(std::unique_ptr<ZonedDevice> contents, Access access,
                               std::shared_ptr<DriveClock> clock)
    : ForwardingDevice(contents.get(), access),
      contents_(std::move(contents)),
      clock_(std::move(clock)) {
  geometry_.identity = "model." + geometry_.identity;
  geometry_.waits = true;
}

IOStatus ModelledDevice::Take(std::uint32_t zone, std::span<const Command> commands,
                              Clock::time_point begin) {
  const Status status = clock_->Run(commands, begin);
  if (status == Status::kOk) return IOStatus::OK();
  return Fail(DeviceError::kIo, zone,
              "the model refuses with NVMe status " + std::to_string(static_cast<int>(status)));
}

IOStatus ModelledDevice::Transfer(Operation operation, std::uint32_t zone, std::uint64_t offset,
                                  std::uint64_t size, std::size_t at_once,
                                  Clock::time_point begin) {
  std::array<Command, DriveClock::kMostCommands> commands;
  for (std::uint64_t done = 0; done < size;) {
    std::size_t count = 0;
    for (; count < at_once && done < size; ++count) {
      const std::uint64_t bytes = std::min(kMostBytes, size - done);
      commands[count] = {operation, false, zone, offset + done, bytes};
      done += bytes;
    }
    RETURN_IF_ERROR(Take(zone, {commands.data(), count}, begin));
    begin = Clock::now();
  }
  return IOStatus::OK();
}

IOStatus ModelledDevice::DoReport(std::uint32_t first, std::uint32_t count,
                                  std::vector<ZoneInfo>* zones) {
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(ForwardingDevice::DoReport(first, count, zones));
  return Take(first, std::array{Whole(Operation::kReport, first)}, begin);
}

// A zone takes one write at a time, as with the kernel's locks.
IOStatus ModelledDevice::DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                                 std::uint64_t* written) {
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(ForwardingDevice::DoWrite(zone, offset, buffer, written));
  clock_->counts()->Add(DriveCount::kStores, CommandsOf(buffer.size()));
  clock_->counts()->Add(DriveCount::kStoredBytes, buffer.size());
  RETURN_IF_ERROR(Transfer(Operation::kWrite, zone, offset, buffer.size(), 1, begin));
  if (offset == 0) Note(zone, "first-write", begin, 0);
  if (offset + buffer.size() == Capacity(zone)) Note(zone, "last-write", begin, offset);
  return IOStatus::OK();
}

IOStatus ModelledDevice::DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                                char* buffer) {
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(ForwardingDevice::DoRead(zone, offset, size, buffer));
  // A drive reads whole blocks. Only the wanted bytes are copied here: a drive copies without a
  // CPU.
  const std::uint64_t from = offset / geometry_.block_size * geometry_.block_size;
  const std::uint64_t bytes = RoundUp(offset + size - from, geometry_.block_size);
  clock_->counts()->Add(DriveCount::kLoads, CommandsOf(bytes));
  clock_->counts()->Add(DriveCount::kLoadedBytes, bytes);
  return Transfer(Operation::kRead, zone, from, bytes, DriveClock::kMostCommands, begin);
}

IOStatus ModelledDevice::DoChange(std::uint32_t zone, ZoneCondition to) {
  const Clock::time_point begin = Clock::now();
  const std::uint64_t written = Known(zone).write_pointer;
  RETURN_IF_ERROR(ForwardingDevice::DoChange(zone, to));
  clock_->counts()->Add(DriveCount::kStores, 1);
  const Operation operation = OperationTo(to);
  RETURN_IF_ERROR(Take(zone, std::array{Whole(operation, zone)}, begin));
  Note(zone, zonemodel::kOperationNames[static_cast<std::size_t>(operation)], begin, written);
  return IOStatus::OK();
}

void ModelledDevice::Note(std::uint32_t zone, std::string_view action, Clock::time_point begin,
                          std::uint64_t written) const {
  const std::chrono::nanoseconds took = Clock::now() - begin;
  clock_->counts()->NoteZone(zone, action, static_cast<std::uint64_t>(took.count()), written);
}

}  // namespace zlfs
