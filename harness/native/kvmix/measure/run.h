// Runs a workload in several threads and measures it.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvmix/measure/histogram.h"
#include "kvmix/measure/target.h"

namespace kvmix {

enum class Arrivals { kFixed, kPoisson };

struct RunOptions {
  // Operations per second of all threads together. 0: closed loop, each operation starts when the
  // previous one ends. In an open loop a late operation does not delay the schedule. Latency is
  // recorded from the intended start and from the issue, so that waiting time is not omitted.
  double rate = 0;
  Arrivals arrivals = Arrivals::kFixed;
  double duration = 0;     // seconds; 0: until the sources end
  std::uint64_t seed = 0;  // for arrival times
  bool verify = false;
  double interval = 1;           // seconds between two lines of the report
  std::string report_file = {};  // CSV; empty: no report
  // Adds two columns to the report: mean and maximum latency of the interval. Open loops measure
  // latency from the intended start.
  bool report_latency = false;
  // The run starts when this file exists. Empty: it starts at once.
  std::string wait_for = {};
};

// Counters of one kind of operation.
struct KindResult {
  Histogram service;   // ns from the issue to the end
  Histogram intended;  // ns from the intended start to the end; empty in a closed loop
  std::uint64_t user_bytes = 0;
  std::uint64_t found = 0;    // point queries
  std::uint64_t entries = 0;  // scans
  std::uint64_t bytes_read = 0;
};

struct RunResult {
  std::array<KindResult, kKinds> kinds;
  double seconds = 0;
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;
  std::string first_wrong;
  std::string problem;  // why the run ended early; empty: it did not
  bool interrupted = false;

  [[nodiscard]] std::uint64_t Operations() const;
  [[nodiscard]] std::uint64_t UserBytes() const;
};

struct Worker {
  Source* source;
  std::unique_ptr<Target> target;
};

// Prints `kvmix: ready` on stderr and waits for the file `wait_for`. Returns false if `stop` is set
// while it waits.
bool WaitForStart(const RunOptions& options, const std::atomic<bool>& stop);

// Runs one thread per worker until the sources end, the duration is over, an operation fails, or
// `stop` is set. In the last case the result is marked as interrupted.
RunResult RunWorkload(std::vector<Worker> workers, const RunOptions& options,
                      const std::atomic<bool>& stop);

}  // namespace kvmix
