#include "model/units.h"

#include <array>
#include <span>

namespace zonemodel {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::array kTimes = {Unit{"ns", 1}, Unit{"us", 1000}, Unit{"ms", 1000 * 1000},
                               Unit{"s", kSecond}};
constexpr std::array kSizes = {Unit{"B", 1}, Unit{"KiB", 1 << 10}, Unit{"MiB", 1 << 20},
                               Unit{"GiB", 1 << 30}};
constexpr std::array kBandwidths = {Unit{"MiB/s", 1 << 20}, Unit{"GiB/s", 1 << 30}};

constexpr int kMostDecimals = 9;
constexpr std::uint64_t kMost = std::uint64_t{1} << 62;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the decimal number at the start of `text`, multiplied by the factor of its unit.
std::uint64_t Parse(std::string_view text, std::span<const Unit> units, const char* hint) {
  const auto refuse = [&](const char* why) -> BadInput {
    return BadInput{"'" + std::string(text) + "' " + why, hint};
  };
  std::size_t at = 0;
  unsigned __int128 digits = 0;
  unsigned __int128 scale = 1;
  int decimals = -1;
  for (; at < text.size() && (IsDigit(text[at]) || (text[at] == '.' && decimals < 0)); ++at) {
    if (text[at] == '.') {
      decimals = 0;
      continue;
    }
    digits = digits * 10 + static_cast<unsigned>(text[at] - '0');
    if (digits > kMost) throw refuse("is too large");
    if (decimals >= 0) {
      if (++decimals > kMostDecimals) throw refuse("has too many decimals");
      scale *= 10;
    }
  }
  if (at == 0 || decimals == 0 || text[0] == '.') throw refuse("does not begin with a number");
  while (at < text.size() && text[at] == ' ') ++at;
  const std::string_view name = text.substr(at);
  if (name.empty()) throw refuse("has no unit");
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const unsigned __int128 value = (digits * unit.factor + scale / 2) / scale;
    if (value > kMost) throw refuse("is too large");
    return static_cast<std::uint64_t>(value);
  }
  throw refuse("has an unknown unit");
}

}  // namespace

Time ParseTime(std::string_view text) {
  return Parse(text, kTimes, "a time is a number with ns, us, ms or s, for example 11.36us");
}

Bytes ParseBytes(std::string_view text) {
  return Parse(text, kSizes, "a size is a number with B, KiB, MiB or GiB, for example 4KiB");
}

std::uint64_t ParseBandwidth(std::string_view text) {
  const char* const hint = "a bandwidth is a number with MiB/s or GiB/s, for example 1155MiB/s";
  const std::uint64_t rate = Parse(text, kBandwidths, hint);
  if (rate == 0) throw BadInput("'" + std::string(text) + "' is no bandwidth", hint);
  return rate;
}

Rate ParseRate(std::string_view text) {
  constexpr std::array kRates = {Unit{"/s", 1}};
  const char* const hint = "a rate is a number with MiB/s, GiB/s or /s, for example 1000/s";
  Rate rate;
  rate.commands = !text.ends_with("iB/s");
  rate.per_second = rate.commands ? Parse(text, kRates, hint) : ParseBandwidth(text);
  if (rate.per_second == 0) throw BadInput("'" + std::string(text) + "' is no rate", hint);
  return rate;
}

}  // namespace zonemodel
