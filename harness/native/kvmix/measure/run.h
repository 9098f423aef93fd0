// Runs a workload in threads and measures it.

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
  // Operations per second of all threads, 0: each as soon as the one before it ended. An operation
  // that comes late does not move those behind it: how long it took from its intended start is
  // recorded beside how long it took itself, so waiting is never left out of the picture.
  double rate = 0;
  Arrivals arrivals = Arrivals::kFixed;
  double duration = 0;     // seconds, 0: to the end of the sources
  std::uint64_t seed = 0;  // of arrival times
  bool verify = false;
  double interval = 1;           // seconds between two lines of the report
  std::string report_file = {};  // CSV, empty: none
  // Two more columns in it: mean and longest time of an interval's operations, from the intended
  // start in open loops.
  bool report_latency = false;
  // The clock begins once this file is there, empty: at once.
  std::string wait_for = {};
};

// What was counted of one kind.
struct KindResult {
  Histogram service;   // ns from issue to end
  Histogram intended;  // ns from intended start to end; empty in a closed loop
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
  std::string problem;  // why it ended early; empty: it did not
  bool interrupted = false;

  [[nodiscard]] std::uint64_t Operations() const;
  [[nodiscard]] std::uint64_t UserBytes() const;
};

struct Worker {
  Source* source;
  std::unique_ptr<Target> target;
};

// Says `ready` on stderr and waits for the file `wait_for`; false when `stop` was set meanwhile.
bool WaitForStart(const RunOptions& options, const std::atomic<bool>& stop);

// Runs one thread per worker until the sources end, the time is over, an operation fails, or `stop`
// is set from outside (interrupted).
RunResult RunWorkload(std::vector<Worker> workers, const RunOptions& options,
                      const std::atomic<bool>& stop);

}  // namespace kvmix
