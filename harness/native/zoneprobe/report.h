// What zoneprobe tells: a line of CSV per command while it works, one line of JSON at its end.
//
// The JSON has every timed latency, so that whoever reads it needs no quantiles of ours:
//
//   {"program": "zoneprobe", "schema_version": 1, "seconds": s, "cycles": n, "block_size": b,
//    "zone_capacity": c, "bytes_written": b, "finishes": n, "pad_bytes": b, "resets": n,
//    "treatments": [{"name": …, "finish": bool, "occupied": bytes,
//                    "finish_ns": […], "reset_ns": […], "write_ns": [[…] of each cycle]}]}

#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "zoneprobe/probe.h"

namespace zoneprobe {

inline constexpr char kHeader[] =
    "seconds,cycle,zone,life,treatment,command,index,bytes,nanoseconds\n";

class Report {
 public:
  // `csv` may be null; it is flushed behind each cycle, for whoever watches.
  Report(const std::vector<Treatment>& treatments, std::FILE* csv);

  void Add(const Sample& sample);
  // `counters` are the device's since it was opened.
  nlohmann::ordered_json Summary(const Probe& probe, const zlfs::ZonedDevice& device) const;

 private:
  struct Times {
    std::vector<std::uint64_t> finishes;
    std::vector<std::uint64_t> resets;
    std::vector<std::vector<std::uint64_t>> writes;  // by cycle
  };

  const std::vector<Treatment>& treatments_;
  std::FILE* const csv_;
  std::vector<Times> times_;  // by treatment
  double end_ = 0;            // seconds
};

// What the device accepted since it was opened, as one line for a ledger.
nlohmann::ordered_json Counts(const zlfs::ZonedDevice& device);

}  // namespace zoneprobe
