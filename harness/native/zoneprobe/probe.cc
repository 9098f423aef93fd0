#include "zoneprobe/probe.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kvmix/source/random.h"

namespace zoneprobe {
namespace {

using zlfs::DeviceError;
using zlfs::IOStatus;
using zlfs::ZoneCondition;

// A timed write must be a single command. Every driver accepts commands up to this size
// (zlfs/zoned/kernel_device.cc).
constexpr std::uint64_t kLargestWrite = 128 << 10;
constexpr std::uint64_t kLargestFill = 16 << 20;

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

IOStatus BadSpec(const std::string& message) {
  return zlfs::MakeError(DeviceError::kBadSpec, message);
}

}  // namespace

Probe::Probe(zlfs::ZonedDevice* device, Options options)
    : device_(device),
      options_(std::move(options)),
      treatments_(Treatments(options_.resets, options_.finishes)) {
  if (options_.write_size == 0) options_.write_size = device->geometry().block_size;
}

IOStatus Probe::Prepare() {
  RETURN_IF_ERROR(CheckSizes());
  std::vector<std::uint32_t> usable;
  RETURN_IF_ERROR(FindZones(&usable));
  cycles_ = MakeCycles(treatments_, options_.repeats, usable, options_.seed);
  if (cycles_.empty()) {
    return zlfs::MakeError("too-few-zones", device_->geometry().path + ": " +
                                                std::to_string(usable.size()) +
                                                " zones are usable; the repeats need more");
  }
  lives_.assign(device_->geometry().zone_count, 0);
  const std::size_t size = std::max(options_.fill_size, options_.write_size);
  buffer_ = zlfs::AllocateAligned(size);
  // Random data defeats compression and zero detection in the drive.
  kvmix::Random random(options_.seed, 2);
  for (std::size_t i = 0; i < size; ++i) buffer_[i] = static_cast<char>(random.Next());
  return IOStatus::OK();
}

IOStatus Probe::CheckSizes() const {
  const std::uint64_t block = device_->geometry().block_size;
  if (options_.repeats == 0 || options_.first_writes == 0) {
    return BadSpec("repeats and first_writes must be at least 1");
  }
  if (options_.write_size % block != 0 || options_.write_size > kLargestWrite) {
    return BadSpec("write_size must be a multiple of the block size, at most 128 KiB");
  }
  if (options_.fill_size == 0 || options_.fill_size % block != 0 ||
      options_.fill_size > kLargestFill) {
    return BadSpec("fill_size must be a multiple of the block size, at most 16 MiB");
  }
  return IOStatus::OK();
}

IOStatus Probe::FindZones(std::vector<std::uint32_t>* usable) {
  const std::uint32_t count = device_->geometry().zone_count;
  std::vector<zlfs::ZoneInfo> zones;
  RETURN_IF_ERROR(device_->Report(0, count, &zones));
  for (std::uint32_t zone = 0; zone < count; ++zone) {
    capacities_.push_back(zones[zone].capacity);
    const ZoneCondition condition = zones[zone].condition;
    const bool gone = condition == ZoneCondition::kReadOnly || condition == ZoneCondition::kOffline;
    if (zone == 0 || gone || condition == ZoneCondition::kNoWritePointer) continue;
    const std::string name = device_->geometry().path + ", zone " + std::to_string(zone);
    if (condition != ZoneCondition::kEmpty) return zlfs::MakeError("not-empty", name);
    // One spare block, so that the last write does not fill the zone.
    const std::uint64_t block = device_->geometry().block_size;
    if (options_.first_writes * options_.write_size + block > zones[zone].capacity) {
      return BadSpec(name + ": the first writes do not fit");
    }
    usable->push_back(zone);
  }
  return IOStatus::OK();
}

std::uint64_t Probe::Occupied(const Cycle& cycle) const {
  return treatments_[cycle.treatment].occupancy.Bytes(capacities_[cycle.zone],
                                                      device_->geometry().block_size);
}

IOStatus Probe::Run(const std::function<void(const Sample&)>& record) {
  record_ = record;
  began_ = Now();
  for (std::uint32_t number = 0; number < cycles_.size(); ++number) {
    RETURN_IF_ERROR(RunCycle(number));
  }
  return IOStatus::OK();
}

IOStatus Probe::RunCycle(std::uint32_t number) {
  const Cycle& cycle = cycles_[number];
  const Treatment& treatment = treatments_[cycle.treatment];
  Sample sample{.cycle = number,
                .zone = cycle.zone,
                .life = lives_[cycle.zone]++,
                .treatment = cycle.treatment};
  if (!treatment.fresh) {
    const std::uint64_t bytes = Occupied(cycle);
    if (bytes > 0) RETURN_IF_ERROR(Fill(&sample, bytes));
    if (treatment.finish) {
      RETURN_IF_ERROR(
          Timed(&sample, Command::kFinish, [&] { return device_->FinishZone(cycle.zone); }));
    }
    RETURN_IF_ERROR(
        Timed(&sample, Command::kReset, [&] { return device_->ResetZone(cycle.zone); }));
  }
  RETURN_IF_ERROR(FirstWrites(&sample));
  return Timed(&sample, Command::kCleanup, [&] { return device_->ResetZone(cycle.zone); });
}

IOStatus Probe::Fill(Sample* sample, std::uint64_t bytes) {
  sample->bytes = bytes;
  const IOStatus status = Timed(sample, Command::kFill, [&] {
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t size = std::min(options_.fill_size, bytes - done);
      RETURN_IF_ERROR(device_->Write(sample->zone, done, zlfs::Slice(buffer_.get(), size)));
      done += size;
    }
    return device_->Flush();  // the data must be on the media before the next command
  });
  sample->bytes = 0;
  return status;
}

IOStatus Probe::FirstWrites(Sample* sample) {
  const std::uint64_t size = options_.write_size;
  sample->bytes = size;
  for (std::uint32_t index = 0; index < options_.first_writes; ++index) {
    sample->index = index;
    RETURN_IF_ERROR(Timed(sample, Command::kWrite, [&] {
      return device_->Write(sample->zone, index * size, zlfs::Slice(buffer_.get(), size));
    }));
  }
  sample->index = 0;
  sample->bytes = 0;
  return IOStatus::OK();
}

IOStatus Probe::Timed(Sample* sample, Command kind, const std::function<IOStatus()>& command) {
  const std::int64_t begin = Now();
  const IOStatus status = command();
  const std::int64_t end = Now();
  if (!status.ok()) return status;
  sample->command = kind;
  sample->seconds = static_cast<double>(begin - began_) * 1e-9;
  sample->nanoseconds = static_cast<std::uint64_t>(end - begin);
  record_(*sample);
  return status;
}

}  // namespace zoneprobe
