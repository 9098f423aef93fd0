#include "model/parameters.h"

#include "model/events.h"

namespace zonemodel {
namespace {

constexpr Bytes kLargestUnit = Bytes{1} << 30;
constexpr Bytes kSector = 512;
constexpr std::uint64_t kMostPages = ~std::uint32_t{0} - 1;  // physical

std::uint32_t Count(Fields* fields, const std::string& name, std::uint32_t least,
                    std::uint32_t most = 1U << 30) {
  return static_cast<std::uint32_t>(fields->GetCount(name, least, most));
}

FlashParameters ReadFlash(const Json& json) {
  Fields fields(json, "flash");
  FlashParameters flash{
      .channels = Count(&fields, "channels", 1, kMostDies - 1),
      .ways = Count(&fields, "ways", 1, kMostDies - 1),
      .program_unit = fields.GetBytes("program_unit"),
      .page = fields.GetBytes("page"),
      .channel_rate = fields.GetBandwidth("channel_rate"),
      .channel_read_rate = fields.GetBandwidth("channel_read_rate"),
      .read_4k = fields.GetTime("read_4k"),
      .read_page = fields.GetTime("read_page"),
      .read_spread = fields.GetTime("read_spread"),
      .program = fields.GetTime("program"),
      .program_spread = fields.GetTime("program_spread", 0),
      .suspend_min = fields.GetTime("suspend_min"),
      .suspend_max = fields.GetTime("suspend_max"),
      .resume = fields.GetTime("resume"),
      .read_burst = fields.GetTime("read_burst", 0),
      .max_suspends = Count(&fields, "max_suspends", 0),
      .erase = fields.GetTime("erase"),
  };
  fields.Finish();
  if (flash.dies() >= kMostDies) {
    throw fields.Refuse("ways", "makes too many dies", "at most 4,095 in all");
  }
  if (flash.page <= 4096) throw fields.Refuse("page", "is too small", "a page is above 4KiB");
  if (flash.program_unit == 0 || flash.program_unit % flash.page != 0) {
    throw fields.Refuse("program_unit", "is not a whole number of pages",
                        "a page has " + std::to_string(flash.page) + " B");
  }
  if (flash.program_unit > kLargestUnit) {
    throw fields.Refuse("program_unit", "is too large", "at most 1GiB");
  }
  if (flash.read_spread > flash.read_4k || flash.read_4k > flash.read_page) {
    throw fields.Refuse("read_page", "is out of order", "read_spread <= read_4k <= read_page");
  }
  if (flash.program_spread > flash.program || flash.suspend_min > flash.suspend_max) {
    throw fields.Refuse("program_spread", "or suspend_max is out of order",
                        "program_spread <= program, suspend_min <= suspend_max");
  }
  return flash;
}

FrontParameters ReadFront(const Json& json) {
  Fields fields(json, "front");
  FrontParameters front{
      .link_rate = fields.GetBandwidth("link_rate"),
      .link_command = fields.GetTime("link_command"),
      .read = fields.GetTime("read"),
      .write = fields.GetTime("write"),
      .append = fields.GetTime("append"),
      .flush = fields.GetTime("flush"),
      .report = fields.GetTime("report"),
      .trim = fields.GetTime("trim"),
      .stage_read = fields.GetTime("stage_read"),
      .stage_write = fields.GetTime("stage_write"),
      .stage_append = fields.GetTime("stage_append"),
      .partial_below = fields.GetBytes("partial_below"),
      .partial = fields.GetTime("partial"),
      .stage_partial = fields.GetTime("stage_partial"),
      .stage_long_every = Count(&fields, "stage_long_every", 1),
      .stage_long = fields.GetShare("stage_long_pct", 100 * kWhole),
      .inline_bytes = fields.GetBytes("inline"),
      .list = fields.GetTime("list"),
      .list_append = fields.GetTime("list_append"),
      .write_rate = fields.GetBandwidth("write_rate"),
      .small_format = fields.GetTime("small_format", 0),
      .logical_block = fields.GetBytes("logical_block"),
  };
  fields.Finish();
  if (front.logical_block != 512 && front.logical_block != 4096) {
    throw fields.Refuse("logical_block", "is not a block format", "512B or 4KiB");
  }
  if (front.stage_long > front.stage_long_every * kWhole) {
    throw fields.Refuse("stage_long_pct", "leaves no time for other commands",
                        "at most 100 times stage_long_every");
  }
  return front;
}

StackParameters ReadStack(const Json& json, const std::string& name) {
  Fields fields(json, "host.stacks." + name);
  const StackParameters stack{
      .submit = fields.GetTime("submit"),
      .list = fields.GetTime("list"),
      .scheduler = fields.GetTime("scheduler"),
      .merged = fields.GetTime("merged", 0),
      .cpu = fields.GetTime("cpu", 0),
      .merge = fields.GetBytes("merge"),
  };
  fields.Finish();
  return stack;
}

HostParameters ReadHost(const Json& json) {
  Fields fields(json, "host");
  HostParameters host{
      .gap = fields.GetTime("gap"), .gap_per_kib = fields.GetTime("gap_per_kib"), .stacks = {}};
  for (const auto& [name, stack] : fields.Get("stacks").items()) {
    host.stacks.emplace(name, ReadStack(stack, name));
  }
  fields.Finish();
  if (!host.stacks.contains("passthrough")) {
    throw fields.Refuse("stacks", "has no passthrough", "add the stack named passthrough");
  }
  return host;
}

EraseAt ReadEraseAt(Fields* fields) {
  const std::string text = fields->GetText("erase_at");
  if (text == "none") return EraseAt::kNone;
  if (text == "reset") return EraseAt::kReset;
  if (text == "first-write") return EraseAt::kFirstWrite;
  throw fields->Refuse("erase_at", "is unknown", "none, reset or first-write");
}

ZoneParameters ReadZones(const Json& json, const FlashParameters& flash, Bytes block) {
  Fields fields(json, "zones");
  ZoneParameters zones{
      .count = Count(&fields, "count", 1, 1U << 24),
      .size = fields.GetBytes("size"),
      .capacity = fields.GetBytes("capacity"),
      .channels = Count(&fields, "channels", 1, flash.channels),
      .ways = Count(&fields, "ways", 1, flash.ways),
      .max_open = Count(&fields, "max_open", 0),
      .max_active = Count(&fields, "max_active", 0),
      .open = fields.GetTime("open"),
      .close = fields.GetTime("close"),
      .finish_empty = fields.GetTime("finish_empty"),
      .implicit_open = fields.GetTime("implicit_open"),
      .implicit_open_append = 0,
      .finish = fields.GetTime("finish"),
      .reset = Curve(fields.Get("reset"), "zones.reset"),
      .reset_finished = Curve(fields.Get("reset_finished"), "zones.reset_finished"),
      .reset_spread = fields.GetShare("reset_spread_pct"),
      .reset_exclusive = fields.GetShare("reset_exclusive_pct"),
      .manage_read = fields.GetTime("manage_read"),
      .manage_write = fields.GetTime("manage_write"),
      .manage_append = fields.GetTime("manage_append"),
      .erase_at = ReadEraseAt(&fields),
  };
  zones.implicit_open_append = fields.GetTime("implicit_open_append", zones.implicit_open);
  fields.Finish();
  const Bytes stripe = zones.dies() * flash.program_unit;
  if (zones.capacity == 0 || zones.capacity % stripe != 0) {
    throw fields.Refuse("capacity", "is no whole number of stripes",
                        "a stripe has " + std::to_string(stripe) + " B");
  }
  if (zones.capacity % block != 0) {
    throw fields.Refuse("capacity", "is no whole number of logical blocks",
                        "a block has " + std::to_string(block) + " B");
  }
  if (zones.capacity > zones.size) {
    throw fields.Refuse("capacity", "is above size", "capacity <= size");
  }
  if (flash.channels % zones.channels != 0 || flash.ways % zones.ways != 0) {
    throw fields.Refuse("channels", "or ways does not divide the drive's",
                        "flash.channels / zones.channels and flash.ways / zones.ways are whole");
  }
  if (zones.max_open > zones.count || zones.max_active > zones.count) {
    throw fields.Refuse("max_active", "or max_open is above count", "limits are at most count");
  }
  if (zones.max_active != 0 && zones.max_open > zones.max_active) {
    throw fields.Refuse("max_open", "is above max_active", "max_open <= max_active");
  }
  return zones;
}

// A map unit is a part of one flash page: the model has no reads of several pages for one unit, and
// no read before a write of a part of a unit.
FtlParameters ReadFtl(const Json& json, const FlashParameters& flash, Bytes block) {
  Fields fields(json, "ftl");
  FtlParameters ftl{
      .capacity = fields.GetBytes("capacity"),
      .map_unit = fields.GetBytes("map_unit"),
      .over_provisioning = fields.GetShare("over_provisioning_pct", 10 * kWhole),
      .block_units = Count(&fields, "block_units", 1),
      .dies = fields.Has("dies") ? Count(&fields, "dies", 1, flash.dies()) : flash.dies(),
      .reserve = Count(&fields, "reserve", 3),  // two open superblocks and a victim
      .collection = Collection::kGreedy,
      .hot_cold_separation = fields.GetBool("hot_cold_separation", true),
  };
  const std::string collection = fields.GetText("collection");
  if (collection != "greedy" && collection != "fifo") {
    throw fields.Refuse("collection", "is unknown", "greedy or fifo");
  }
  if (collection == "fifo") ftl.collection = Collection::kFifo;
  fields.Finish();
  if (ftl.map_unit == 0 || ftl.map_unit % kSector != 0 || flash.page % ftl.map_unit != 0) {
    throw fields.Refuse("map_unit", "is not a part of a flash page",
                        "a multiple of 512B that divides flash.page, which has " +
                            std::to_string(flash.page) + " B");
  }
  if (ftl.capacity == 0 || ftl.capacity % ftl.map_unit != 0 || ftl.capacity % block != 0) {
    throw fields.Refuse("capacity", "is no whole number of map units and logical blocks",
                        "a map unit has " + std::to_string(ftl.map_unit) + " B, a block " +
                            std::to_string(block) + " B");
  }
  if (ftl.pages() > std::uint64_t{1} << 31) {
    throw fields.Refuse("capacity", "is too large", "at most 2^31 map units");
  }
  const std::uint64_t block_pages = ftl.block_pages(flash);
  const std::uint64_t blocks = ftl.blocks(flash);
  if (blocks * block_pages < ftl.pages() + 2 * block_pages) {
    throw fields.Refuse("over_provisioning_pct", "is below two superblocks",
                        "raise over_provisioning_pct or capacity, or lower block_units");
  }
  if (blocks + ftl.reserve > kMostPages / block_pages) {
    throw fields.Refuse("capacity", "makes too many physical pages",
                        "lower capacity or reserve, or raise map_unit");
  }
  return ftl;
}

}  // namespace

Curve::Curve(const Json& pairs, const std::string& where) {
  const BadInput bad(where + " is not a list of shares and times",
                     "pairs [pct, time], ascending from 0 to 100");
  if (!pairs.is_array() || pairs.size() < 2) throw bad;
  for (const Json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_string()) throw bad;
    const std::optional<std::uint64_t> share = ShareOf(pair[0]);
    if (!share || (!points_.empty() && *share <= points_.back().share)) throw bad;
    try {
      points_.push_back({.share = *share, .time = ParseTime(pair[1].get<std::string>())});
    } catch (const BadInput& wrong) {
      throw BadInput(where + ": " + wrong.what(), wrong.hint);
    }
  }
  if (points_.front().share != 0 || points_.back().share != kWhole) throw bad;
}

Time Curve::At(Bytes part, Bytes whole) const {
  const auto share =
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(part) * kWhole / whole);
  std::size_t i = 1;
  while (i + 1 < points_.size() && points_[i].share < share) ++i;
  const Point& low = points_[i - 1];
  const Point& high = points_[i];
  const std::uint64_t width = high.share - low.share;
  const std::uint64_t from_low = share - low.share;
  // With 64 bits, times above 18 s would overflow.
  const auto sum = static_cast<unsigned __int128>(low.time) * (width - from_low) +
                   static_cast<unsigned __int128>(high.time) * from_low;
  return static_cast<Time>((sum + width / 2) / width);
}

std::uint64_t FtlParameters::blocks(const FlashParameters& flash) const {
  const std::uint64_t logical = pages();
  const std::uint64_t physical =
      logical + (logical / 1000 * over_provisioning + logical % 1000 * over_provisioning / 1000) /
                    (kWhole / 1000);
  return (physical + block_pages(flash) / 2) / block_pages(flash);
}

Parameters ReadParameters(const Json& json) {
  Fields fields(json, "model");
  if (fields.GetCount("schema_version", 1) != 1) {
    throw fields.Refuse("schema_version", "is newer than this program", "use a newer zonelab");
  }
  Parameters parameters;
  parameters.name = fields.GetText("name");
  if (fields.Has("description")) fields.GetText("description");
  parameters.flash = ReadFlash(fields.Get("flash"));
  parameters.front = ReadFront(fields.Get("front"));
  Fields buffer(fields.Get("buffer"), "buffer");
  parameters.buffer = buffer.GetBytes("size");
  buffer.Finish();
  parameters.host = ReadHost(fields.Get("host"));
  const Bytes block = parameters.front.logical_block;
  if (fields.Has("zones")) {
    parameters.zones = ReadZones(fields.Get("zones"), parameters.flash, block);
  }
  if (fields.Has("ftl")) parameters.ftl = ReadFtl(fields.Get("ftl"), parameters.flash, block);
  fields.Finish();
  if (!parameters.zones && !parameters.ftl) {
    throw fields.Refuse("zones", "and ftl are missing", "a drive has one of them, or both");
  }
  // Each active zone may hold a partial unit in the buffer. Further data must still fit.
  const std::uint64_t open = parameters.zones && parameters.zones->max_active != 0
                                 ? parameters.zones->max_active
                                 : std::uint64_t{2};
  if (parameters.buffer < (open + 2) * parameters.flash.program_unit) {
    throw fields.Refuse("buffer", "is too small", "at least (active zones + 2) program units");
  }
  return parameters;
}

}  // namespace zonemodel
