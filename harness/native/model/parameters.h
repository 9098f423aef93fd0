// The parameters of a drive: configs/models/*.yml, converted to JSON. README.md describes each
// field.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/fields.h"
#include "model/units.h"

namespace zonemodel {

struct FlashParameters {
  std::uint32_t channels, ways;
  Bytes program_unit, page;
  std::uint64_t channel_rate, channel_read_rate;
  Time read_4k, read_page, read_spread;
  Time program, program_spread;
  Time suspend_min, suspend_max, resume, read_burst;
  std::uint32_t max_suspends;
  Time erase;

  [[nodiscard]] std::uint32_t dies() const { return channels * ways; }
};

struct FrontParameters {
  std::uint64_t link_rate;
  Time link_command;
  Time read, write, append, flush, report, trim;
  Time stage_read, stage_write, stage_append;
  Bytes partial_below;
  Time partial, stage_partial;
  std::uint32_t stage_long_every;
  std::uint64_t stage_long;  // share of kWhole
  Bytes inline_bytes;
  Time list, list_append;
  std::uint64_t write_rate;
  Time small_format;
  Bytes logical_block;
};

struct StackParameters {
  Time submit, list, scheduler, merged, cpu;
  Bytes merge;
};

struct HostParameters {
  Time gap, gap_per_kib;
  std::map<std::string, StackParameters> stacks;
};

// A time that depends on the written share of a zone's capacity. It is linear between points.
class Curve {
 public:
  struct Point {
    std::uint64_t share;  // of kWhole
    Time time;
  };
  Curve() = default;
  Curve(const Json& pairs, const std::string& where);
  [[nodiscard]] Time At(Bytes part, Bytes whole) const;

 private:
  std::vector<Point> points_;
};

enum class EraseAt : std::uint8_t { kNone, kReset, kFirstWrite };

struct ZoneParameters {
  std::uint32_t count;
  Bytes size, capacity;
  std::uint32_t channels, ways;
  std::uint32_t max_open, max_active;
  Time open, close, finish_empty, implicit_open, implicit_open_append, finish;
  Curve reset, reset_finished;
  std::uint64_t reset_spread, reset_exclusive;  // shares of kWhole
  Time manage_read, manage_write, manage_append;
  EraseAt erase_at;

  [[nodiscard]] std::uint32_t dies() const { return channels * ways; }
};

enum class Collection : std::uint8_t { kGreedy, kFifo };

struct FtlParameters {
  Bytes capacity, map_unit;
  std::uint64_t over_provisioning;  // of kWhole
  std::uint32_t block_units, dies, reserve;
  Collection collection;
  bool hot_cold_separation;

  [[nodiscard]] std::uint64_t pages() const { return capacity / map_unit; }
  // Returns the pages of a superblock.
  [[nodiscard]] std::uint64_t block_pages(const FlashParameters& flash) const {
    return flash.program_unit / map_unit * block_units * dies;
  }
  // Returns the number of superblocks without the reserve.
  [[nodiscard]] std::uint64_t blocks(const FlashParameters& flash) const;
};

struct Parameters {
  std::string name;
  FlashParameters flash;
  FrontParameters front;
  Bytes buffer;
  HostParameters host;
  std::optional<ZoneParameters> zones;
  std::optional<FtlParameters> ftl;
};

Parameters ReadParameters(const Json& json);

}  // namespace zonemodel
