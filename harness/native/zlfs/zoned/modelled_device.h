// An emulated device whose commands take the time of a modelled drive (harness/native/model). The
// model has no data, so an emulated device holds the contents.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "zlfs/zoned/drive_clock.h"
#include "zlfs/zoned/forwarding_device.h"

namespace zlfs {

class ModelledDevice final : public ForwardingDevice {
 public:
  // `file` is a model as JSON (`zonelab model export`). Removes the options `dilation` (1 to 1000,
  // default 1), `contents` and `counts` (files; default: memory) from the map. Handles of the same
  // contents in one process share a clock.
  static IOStatus Open(const std::string& file, Access access,
                       std::map<std::string, std::string>* options,
                       std::unique_ptr<ZonedDevice>* device);
  ModelledDevice(std::unique_ptr<ZonedDevice> contents, Access access,
                 std::shared_ptr<DriveClock> clock);

 private:
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override;
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override;
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override;
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override;

  // Takes the rest of the time of these commands, which began at this time.
  IOStatus Take(std::uint32_t zone, std::span<const zonemodel::Command> commands,
                std::chrono::steady_clock::time_point begin);
  // Takes the rest of the time of a read or write that began at this time. Splits it into commands
  // as the kernel does, and sends up to `at_once` of them together.
  IOStatus Transfer(zonemodel::Operation operation, std::uint32_t zone, std::uint64_t offset,
                    std::uint64_t size, std::size_t at_once,
                    std::chrono::steady_clock::time_point begin);
  // Notes a zone command, or a zone's first or last write, that began at this time.
  void Note(std::uint32_t zone, std::string_view action,
            std::chrono::steady_clock::time_point begin, std::uint64_t written) const;

  const std::unique_ptr<ZonedDevice> contents_;
  const std::shared_ptr<DriveClock> clock_;
};

}  // namespace zlfs
