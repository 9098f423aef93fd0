// zoneprobe's output: one CSV line per command during the run, and one line of JSON at the end.
//
// The JSON holds every latency of finishes, resets and first writes, so that readers can compute
// their own quantiles:
//
//   {"program": "zoneprobe", "schema_version": 1, "seconds": s, "cycles": n, "block_size": b,
//    "zone_capacity": c, "bytes_written": b, "finishes": n, "pad_bytes": b, "resets": n,
//    "treatments": [{"name": …, "finish": bool, "occupied": bytes,
//                    "finish_ns": […], "reset_ns": […], "write_ns": [[…] per cycle]}]}

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
  // `csv` may be null. It is flushed after each cycle, so that readers can follow the run.
  Report(const std::vector<Treatment>& treatments, std::FILE* csv);

  void Add(const Sample& sample);
  // The summary includes Counts(device).
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

// The device's counters since it was opened, as one line of a ledger.
nlohmann::ordered_json Counts(const zlfs::ZonedDevice& device);

}  // namespace zoneprobe
