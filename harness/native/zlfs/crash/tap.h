// A device that passes each modifying command to a function. The function decides when and whether
// the inner device receives it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "zlfs/zoned/forwarding_device.h"

namespace zlfs::crash {

enum class CommandKind : std::uint8_t { kWrite, kFlush, kOpen, kClose, kFinish, kReset };

struct Command {
  CommandKind kind = CommandKind::kFlush;
  std::uint32_t zone = 0;
  std::uint64_t offset = 0;  // offset and content are set for writes only
  Slice content = {};
};

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

class TappedDevice final : public ForwardingDevice {
 public:
  using Tap = std::function<IOStatus(ZonedDevice* inner, const Command& command)>;
  TappedDevice(std::unique_ptr<ZonedDevice> inner, Tap tap)
      : ForwardingDevice(inner.get()), owned_(std::move(inner)), tap_(std::move(tap)) {}
  // Reports the identity of another device, of which `inner` is a copy.
  TappedDevice(std::unique_ptr<ZonedDevice> inner, const std::string& identity)
      : TappedDevice(std::move(inner), Execute) {
    geometry_.identity = identity;
  }

 private:
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& content,
                   std::uint64_t* written) override {
    RETURN_IF_ERROR(tap_(inner_, {CommandKind::kWrite, zone, offset, content}));
    *written = content.size();
    return IOStatus::OK();
  }
  IOStatus DoFlush() override { return tap_(inner_, {}); }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    const CommandKind kind = to == ZoneCondition::kExplicitlyOpen ? CommandKind::kOpen
                             : to == ZoneCondition::kClosed       ? CommandKind::kClose
                             : to == ZoneCondition::kFull         ? CommandKind::kFinish
                                                                  : CommandKind::kReset;
    return tap_(inner_, {.kind = kind, .zone = zone});
  }

  const std::unique_ptr<ZonedDevice> owned_;
  const Tap tap_;
};

}  // namespace zlfs::crash
