#include "kvmix/measure/histogram.h"

#include <algorithm>

namespace kvmix {

void Histogram::Add(const Histogram& other) {
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    counts_[bucket] += other.counts_[bucket];
  }
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

std::vector<Histogram::Bucket> Histogram::Buckets() const {
  std::vector<Bucket> buckets;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (counts_[bucket] == 0) continue;
    buckets.push_back({bucket == 0 ? 0 : Largest(bucket - 1), Largest(bucket), counts_[bucket]});
  }
  return buckets;
}

}  // namespace kvmix
