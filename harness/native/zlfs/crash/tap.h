// A device that hands each command that changes something to a function, which decides when, and
// whether, the device behind it gets it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/zoned/device.h"

namespace zlfs::crash {

enum class CommandKind : std::uint8_t { kWrite, kFlush, kOpen, kClose, kFinish, kReset };

struct Command {
  CommandKind kind = CommandKind::kFlush;
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;  // of a write, as is the content
  Slice content = {};
};

// Carries out a command on a device.
inline IOStatus Execute(ZonedDevice* device, const Command& command) {
  switch (command.kind) {
    case CommandKind::kWrite:
      return device->Write(command.zone, command.offset, command.content);
    case CommandKind::kFlush:
      return device->Flush();
    case CommandKind::kOpen:
      return device->OpenZone(command.zone);
    case CommandKind::kClose:
      return device->CloseZone(command.zone);
    case CommandKind::kFinish:
      return device->FinishZone(command.zone);
    case CommandKind::kReset:
      return device->ResetZone(command.zone);
  }
  return IOStatus::NotSupported("command");
}

class TappedDevice final : public ZonedDevice {
 public:
  using Tap = std::function<IOStatus(ZonedDevice* inner, const Command& command)>;
  TappedDevice(std::unique_ptr<ZonedDevice> inner, Tap tap)
      : ZonedDevice(Access::kReadWrite), inner_(std::move(inner)), tap_(std::move(tap)) {
    geometry_ = inner_->geometry();
  }
  // Pretends to be another device, of which `inner` is a copy.
  TappedDevice(std::unique_ptr<ZonedDevice> inner, const std::string& identity)
      : TappedDevice(std::move(inner), Execute) {
    geometry_.identity = identity;
  }
  IOStatus Report(std::uint32_t first, std::uint32_t count, std::vector<ZoneInfo>* zones) override {
    return inner_->Report(first, count, zones);
  }
  IOStatus Write(std::uint32_t zone, std::uint64_t offset, const Slice& content) override {
    return tap_(inner_.get(), {CommandKind::kWrite, zone, offset, content});
  }
  IOStatus Read(std::uint64_t offset, std::size_t size, char* buffer) override {
    return inner_->Read(offset, size, buffer);
  }
  IOStatus Flush() override { return tap_(inner_.get(), {}); }
  IOStatus OpenZone(std::uint32_t zone) override { return Manage(CommandKind::kOpen, zone); }
  IOStatus CloseZone(std::uint32_t zone) override { return Manage(CommandKind::kClose, zone); }
  IOStatus FinishZone(std::uint32_t zone) override { return Manage(CommandKind::kFinish, zone); }
  IOStatus ResetZone(std::uint32_t zone) override { return Manage(CommandKind::kReset, zone); }
  Counters counters() const override { return inner_->counters(); }

 private:
  IOStatus Manage(CommandKind kind, std::uint32_t zone) {
    return tap_(inner_.get(), {.kind = kind, .zone = zone});
  }

  const std::unique_ptr<ZonedDevice> inner_;
  const Tap tap_;
};

}  // namespace zlfs::crash
