// Parses times, sizes and rates with units. The arithmetic is on integers, so that every machine
// gets the same value.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace zonemodel {

using Time = std::uint64_t;  // nanoseconds
using Bytes = std::uint64_t;

constexpr Time kNever = ~Time{0};
constexpr Time kSecond = 1'000'000'000;

// Reports invalid input with a message of one line and a hint.
struct BadInput : std::runtime_error {
  BadInput(const std::string& message, std::string why)
      : std::runtime_error(message), hint(std::move(why)) {}
  std::string hint;
};

Time ParseTime(std::string_view text);    // ns, us, ms, s
Bytes ParseBytes(std::string_view text);  // B, KiB, MiB, GiB

// Bytes or commands per second.
struct Rate {
  std::uint64_t per_second = 0;
  bool commands = false;
};
Rate ParseRate(std::string_view text);                // MiB/s, GiB/s, /s
std::uint64_t ParseBandwidth(std::string_view text);  // MiB/s, GiB/s; at least 1 B/s

// Returns the time of `bytes` at `rate` bytes per second, rounded to the nearest nanosecond.
constexpr Time Duration(Bytes bytes, std::uint64_t rate) {
  return static_cast<Time>((static_cast<unsigned __int128>(bytes) * kSecond + rate / 2) / rate);
}

}  // namespace zonemodel
