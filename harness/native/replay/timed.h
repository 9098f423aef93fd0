// Plays the requests of a mount on a modelled drive. Each thread sends its next request when its
// last one is done and its thinking time is over (docs/replay.md).

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/drive.h"
#include "model/events.h"
#include "model/load/histogram.h"
#include "model/parameters.h"
#include "replay/requests.h"
#include "zlfs/account/zone_io.h"

namespace zlfs::replay {

// Sums over all mounts.
class Times {
 public:
  struct Command {
    std::uint64_t bytes = 0;
    zonemodel::Histogram latencies;
  };

  nlohmann::json Json() const;

  std::array<Command, std::size(kCauseNames)> appends;
  std::array<Command, std::size(kCauseNames)> syncs;
  std::array<Command, zonemodel::kOperationNames.size()> commands;  // of the device
  std::uint64_t recorded = 0;                                       // ns
  std::uint64_t modelled = 0;                                       // ns
  std::uint64_t turns = 0;  // ns that requests waited for requests that were not sent yet
};

class TimedPlayer {
 public:
  // The drive has the zones of the setting. It has no limit of active zones, because the allocator
  // keeps the limit.
  TimedPlayer(zonemodel::Parameters parameters, const Setting& setting, const Requests& requests,
              Times* times);
  // Plays all. Errors: "model", if the drive refuses a command or stands still.
  IOStatus Play();

 private:
  struct Zone {
    std::uint32_t done = 0;  // commands whose order counts
    std::uint32_t reads_done = 0;
    zonemodel::Time sent = 0;            // time of the last command whose order counts
    zonemodel::Time read_sent = 0;       // of the last read
    std::vector<std::uint32_t> waiting;  // threads
  };
  struct Thread {
    const std::vector<DeviceRequest>* requests = nullptr;
    std::size_t next = 0;
    zonemodel::Time arrived = 0;     // when the request arrived
    zonemodel::Time begin = 0;       // start of its latency
    zonemodel::Time sync_begin = 0;  // start of a sync's latency: moved by waits for turns
    std::uint64_t sent = 0;          // bytes
    std::uint32_t under_way = 0;     // commands

    const DeviceRequest& request() const { return (*requests)[next]; }
  };

  void Prepare(const Requests& requests);
  void Next(std::uint32_t thread, zonemodel::Time now);
  void Arrive(std::uint32_t thread, zonemodel::Time now);
  void Begin(std::uint32_t thread, zonemodel::Time now);
  bool MustWait(const DeviceRequest& request) const;
  void Send(std::uint32_t thread, zonemodel::Time now);
  bool SendPart(std::uint32_t thread, zonemodel::Time now);
  void PartDone(std::uint32_t tag, zonemodel::Time now);
  void Done(std::uint32_t thread, zonemodel::Time now);
  void MakeLogRoom(std::uint64_t bytes);
  void Wake(std::vector<std::uint32_t>* waiting, zonemodel::Time now);

  const zonemodel::Parameters parameters_;
  const zonemodel::StackParameters stack_;
  const std::uint32_t metadata_zones_;
  Times* const times_;
  zonemodel::EventQueue events_;
  zonemodel::Drive drive_;
  std::vector<Zone> zones_;
  std::vector<Thread> threads_;
  std::vector<zonemodel::Time> begun_;  // by tag; kNever: the tag is free
  std::uint32_t left_ = 0;              // threads with requests
  bool committing_ = false;
  std::vector<std::uint32_t> commits_;  // threads that wait to write the metadata log
  std::uint32_t log_zone_ = 0;
  std::optional<zonemodel::Status> refusal_;
};

}  // namespace zlfs::replay
