#include "kvmix/measure/summary.h"

namespace kvmix {
namespace {

using nlohmann::ordered_json;

ordered_json Times(const Histogram& histogram) {
  ordered_json buckets = ordered_json::array();
  for (const auto& bucket : histogram.Buckets()) {
    buckets.push_back({bucket.low, bucket.high, bucket.count});
  }
  return {{"unit", "ns"},           {"count", histogram.count()}, {"sum", histogram.sum()},
          {"min", histogram.min()}, {"max", histogram.max()},     {"buckets", std::move(buckets)}};
}

ordered_json OfKind(const KindResult& kind) {
  ordered_json found{{"operations", kind.service.count()},
                     {"user_bytes", kind.user_bytes},
                     {"found", kind.found},
                     {"entries", kind.entries},
                     {"bytes_read", kind.bytes_read},
                     {"service", Times(kind.service)}};
  if (kind.intended.count() > 0) found["intended"] = Times(kind.intended);
  return found;
}

}  // namespace

ordered_json Summary(const RunResult& result) {
  ordered_json kinds = ordered_json::object();
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (result.kinds[kind].service.count() == 0) continue;
    kinds[std::string(kKindNames[kind])] = OfKind(result.kinds[kind]);
  }
  return {{"operations", result.Operations()},
          {"seconds", result.seconds},
          {"user_bytes", result.UserBytes()},
          {"kinds", std::move(kinds)},
          {"verified", {{"reads", result.checked}, {"wrong", result.wrong}}},
          {"interrupted", result.interrupted}};
}

}  // namespace kvmix
