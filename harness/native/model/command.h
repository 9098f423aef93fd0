// NVMe commands of the model. They carry no data.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "model/units.h"

namespace zonemodel {

enum class Operation : std::uint8_t {
  kRead,
  kWrite,
  kAppend,
  kFlush,
  kReport,
  kOpen,
  kClose,
  kFinish,
  kReset,
  kTrim
};
constexpr std::array<std::string_view, 10> kOperationNames = {
    "read", "write", "append", "flush", "report", "open", "close", "finish", "reset", "trim"};

// NVMe status: the high byte is the status code type, the low byte the status code.
enum class Status : std::uint16_t {
  kOk = 0,
  kOutOfRange = 0x0080,
  kBoundary = 0x01b8,
  kFull = 0x01b9,
  kInvalidWrite = 0x01bc,
  kTooManyActive = 0x01bd,
  kTooManyOpen = 0x01be,
  kInvalidTransition = 0x01bf,
};

struct Command {
  Operation operation;
  bool conventional;   // goes to the conventional namespace
  std::uint32_t zone;  // of the zoned namespace
  Bytes offset;        // from the start of the zone, or of the conventional namespace
  Bytes bytes;
};

}  // namespace zonemodel
