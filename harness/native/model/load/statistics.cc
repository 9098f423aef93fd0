#include "model/load/statistics.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace zonemodel {
namespace {

struct Quantile {
  const char* name;
  std::uint64_t below;  // of 10,000
};
constexpr std::array kQuantiles = {Quantile{"p50_ns", 5000}, Quantile{"p95_ns", 9500},
                                   Quantile{"p99_ns", 9900}, Quantile{"p99_9_ns", 9990},
                                   Quantile{"p99_99_ns", 9999}};

double Ratio(unsigned __int128 part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void Statistics::Record(const Command& command, Status status, bool opened, Time latency,
                        Time now) {
  last_ = now;
  Kind& kind = kinds_.at(static_cast<std::size_t>(command.operation));
  if (status != Status::kOk) {
    ++kind.errors[status];
    return;
  }
  const auto add = [&](Kind* to) {
    to->latencies.Record(latency);
    to->bytes += command.bytes;
    to->first = std::min(to->first, now);
    to->last = now;
  };
  add(&kind);
  if (opened) add(command.operation == Operation::kAppend ? &append_first_ : &write_first_);
}

Json Statistics::Report(Time window) const {
  Json report = Json::object();
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].latencies.count() == 0 && kinds_[i].errors.empty()) continue;
    report[std::string(kOperationNames[i])] = KindJson(kinds_[i], window);
  }
  if (write_first_.latencies.count() > 0) report["write_first"] = KindJson(write_first_, window);
  if (append_first_.latencies.count() > 0) report["append_first"] = KindJson(append_first_, window);
  return report;
}

Json Statistics::KindJson(const Kind& kind, Time window) {
  const Histogram& latencies = kind.latencies;
  const std::uint64_t count = latencies.count();
  Json json = {{"count", count}, {"bytes", kind.bytes}, {"errors", Json::object()}};
  for (const auto& [status, errors] : kind.errors) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "0x%04x", static_cast<unsigned>(status));
    json["errors"][text.data()] = errors;
  }
  if (count == 0) return json;
  json["mean_ns"] = Ratio(latencies.sum(), count);
  json["min_ns"] = latencies.min();
  json["max_ns"] = latencies.max();
  for (const Quantile& quantile : kQuantiles) {
    const auto value = latencies.Quantile(quantile.below, 10'000);
    json[quantile.name] = value ? Json(*value) : Json(nullptr);
  }
  json["per_second"] = Ratio(static_cast<unsigned __int128>(count) * kSecond, window);
  json["mib_per_second"] =
      Ratio(static_cast<unsigned __int128>(kind.bytes) * kSecond, window) / (1 << 20);
  json["first_ns"] = kind.first;
  json["last_ns"] = kind.last;
  return json;
}

}  // namespace zonemodel
