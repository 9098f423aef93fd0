#include "zoneprobe/report.h"

#include <algorithm>

namespace zoneprobe {
namespace {

// Indexed by Command.
constexpr const char* kCommands[] = {"fill", "finish", "reset", "write", "cleanup"};

}  // namespace

Report::Report(const std::vector<Treatment>& treatments, std::FILE* csv)
    : treatments_(treatments), csv_(csv), times_(treatments.size()) {
  if (csv_ != nullptr) std::fputs(kHeader, csv_);
}

void Report::Add(const Sample& sample) {
  Times& times = times_[sample.treatment];
  if (sample.command == Command::kFinish) times.finishes.push_back(sample.nanoseconds);
  if (sample.command == Command::kReset) times.resets.push_back(sample.nanoseconds);
  if (sample.command == Command::kWrite) {
    if (sample.index == 0) times.writes.emplace_back();
    times.writes.back().push_back(sample.nanoseconds);
  }
  end_ = sample.seconds + static_cast<double>(sample.nanoseconds) * 1e-9;
  if (csv_ == nullptr) return;
  std::fprintf(csv_, "%.6f,%u,%u,%u,%s,%s,%u,%llu,%llu\n", sample.seconds, sample.cycle,
               sample.zone, sample.life, treatments_[sample.treatment].name.c_str(),
               kCommands[static_cast<std::size_t>(sample.command)], sample.index,
               static_cast<unsigned long long>(sample.bytes),
               static_cast<unsigned long long>(sample.nanoseconds));
  if (sample.command == Command::kCleanup) std::fflush(csv_);
}

nlohmann::ordered_json Report::Summary(const Probe& probe, const zlfs::ZonedDevice& device) const {
  const auto& cycles = probe.cycles();
  nlohmann::ordered_json treatments = nlohmann::ordered_json::array();
  for (std::uint32_t which = 0; which < treatments_.size(); ++which) {
    const auto first = std::find_if(cycles.begin(), cycles.end(), [which](const Cycle& cycle) {
      return cycle.treatment == which;
    });
    const Times& times = times_[which];
    treatments.push_back({{"name", treatments_[which].name},
                          {"finish", treatments_[which].finish},
                          {"occupied", probe.Occupied(*first)},
                          {"finish_ns", times.finishes},
                          {"reset_ns", times.resets},
                          {"write_ns", times.writes}});
  }
  nlohmann::ordered_json summary = {{"program", "zoneprobe"},
                                    {"schema_version", 1},
                                    {"seconds", end_},
                                    {"cycles", cycles.size()},
                                    {"block_size", device.geometry().block_size},
                                    {"zone_capacity", probe.Capacity(cycles.front().zone)}};
  summary.update(Counts(device));
  summary["treatments"] = std::move(treatments);
  return summary;
}

nlohmann::ordered_json Counts(const zlfs::ZonedDevice& device) {
  const zlfs::Counters counters = device.counters();
  return {{"bytes_written", counters.bytes_written},
          {"finishes", counters.finishes},
          {"pad_bytes", counters.pad_bytes},
          {"resets", counters.resets}};
}

}  // namespace zoneprobe
