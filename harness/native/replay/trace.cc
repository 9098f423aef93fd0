#include "replay/trace.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <variant>

#include "zlfs/format/sealed.h"
#include "zlfs/zoned/errors.h"

namespace zlfs::replay {
namespace {

IOStatus Bad(std::uint64_t offset, const std::string& message) {
  return IOStatus::Corruption("bad-trace", "byte " + std::to_string(offset) + ": " + message);
}

// Appends each event to its mount. Returns false if the events are out of order.
struct Sorter {
  std::vector<Mount>* mounts;
  Stamp stamp = {};  // of the next event
  bool stamped = false;
  bool open = false;
  bool trouble = false;

  bool operator()(MountEvent& event) {
    // Older policies have fewer fields: the rest have their defaults.
    if (open || event.policy.size() > sizeof(Policy) || event.block_size == 0) return false;
    open = true;
    Mount& mount = mounts->emplace_back();
    mount.block_size = event.block_size;
    mount.active_budget = event.active_budget;
    std::memcpy(&mount.policy, event.policy.data(), event.policy.size());
    return true;
  }
  bool operator()(ZoneEvent& event) {
    if (open) mounts->back().zones.push_back(event);
    return open;
  }
  bool operator()(FileEvent& event) {
    if (open) mounts->back().files.push_back(std::move(event));
    return open;
  }
  bool operator()(AskEvent& event) { return Keep(event); }
  bool operator()(SyncEvent& event) { return Keep(event); }
  bool operator()(ReadEvent& event) { return event.requests > 0 && Keep(event); }
  bool operator()(StepEvent& event) {
    if (event.step > static_cast<std::uint32_t>(Step::kTrouble)) return false;
    trouble = trouble || event.step == static_cast<std::uint32_t>(Step::kTrouble);
    return Keep(event);
  }
  bool operator()(CloseEvent& event) {
    if (open) mounts->back().ledger = std::move(event.ledger);
    return std::exchange(open, false);
  }

  bool Keep(const Event& event) {
    if (!open) return false;
    mounts->back().events.push_back(event);
    if (stamped) mounts->back().stamps.push_back(stamp);
    return true;
  }
};

}  // namespace

IOStatus ReadTrace(const std::string& path, std::vector<Mount>* mounts) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IOStatus::PathNotFound("missing", path);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string bytes = std::move(content).str();
  const std::string_view all(bytes);
  Sorter sorter{.mounts = mounts};
  Stamp last;
  std::uint64_t number = 0;
  std::uint64_t previous = 0;
  for (std::size_t at = 0; at < all.size();) {
    SealedHeader header;
    if (at + kHeaderSize > all.size()) return IOStatus::Corruption("unfinished", "a chunk is torn");
    if (!ReadHeader(all.substr(at), kTraceMagic, &header)) return Bad(at, "no chunk begins here");
    if (header.generation > kTraceVersion) {
      return IOStatus::NotSupported("newer-trace", "version " + std::to_string(header.generation));
    }
    const std::size_t size = kHeaderSize + header.size;
    if (at + size > all.size()) return IOStatus::Corruption("unfinished", "a chunk is torn");
    if (!ContentIsRight(all.substr(at, size), header)) return Bad(at, "wrong checksum");
    if (!sorter.open) {  // chunk numbers and times start again at each mount
      number = previous = 0;
      last = {};
    }
    if (header.number != ++number || header.previous != previous) {
      return header.number == 1 ? IOStatus::Corruption("unfinished", "a mount has no end")
                                : Bad(at, "a chunk is missing");
    }
    previous = header.checksum;
    std::vector<Event> events;
    std::vector<Stamp> stamps;
    if (!DecodeEvents(all.substr(at + kHeaderSize, header.size), header.generation, &last, &events,
                      &stamps)) {
      return Bad(at, "malformed events");
    }
    sorter.stamped = !stamps.empty();
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (sorter.stamped) sorter.stamp = stamps[i];
      if (!std::visit(sorter, events[i])) return Bad(at, "events are out of order");
      mounts->back().version = header.generation;
    }
    at += size;
  }
  if (mounts->empty()) return Bad(0, "it is empty");
  if (sorter.open) return IOStatus::Corruption("unfinished", "the last mount has no end");
  if (sorter.trouble) {
    return IOStatus::NotSupported("device-trouble", "zones failed, or a mount finished zones");
  }
  return IOStatus::OK();
}

void ToTimeOfDrive(std::uint64_t dilation, Mount* mount) {
  for (Stamp& stamp : mount->stamps) stamp.time /= dilation;
  for (Event& event : mount->events) {
    if (auto* const sync = std::get_if<SyncEvent>(&event)) sync->took /= dilation;
    if (auto* const read = std::get_if<ReadEvent>(&event)) read->took /= dilation;
  }
}

}  // namespace zlfs::replay
