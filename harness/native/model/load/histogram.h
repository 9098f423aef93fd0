// Counts latencies in buckets that are at most 1/128 (0.8 %) of their values wide.

#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/units.h"

namespace zonemodel {

class Histogram {
 public:
  void Record(Time value) {
    const std::size_t bucket = BucketOf(value);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1, 0);
    ++counts_[bucket];
    ++count_;
    sum_ += value;
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] unsigned __int128 sum() const { return sum_; }
  [[nodiscard]] Time min() const { return min_; }
  [[nodiscard]] Time max() const { return max_; }

  // Returns the value below which the share `below` / `of` of all values lies: the upper end of its
  // bucket, but at most the largest value. Returns nullopt if less than one value lies above it.
  [[nodiscard]] std::optional<Time> Quantile(std::uint64_t below, std::uint64_t of) const {
    if (count_ * (of - below) < of) return std::nullopt;
    const std::uint64_t rank = (count_ * below + of - 1) / of;  // from 1
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (seen >= rank) return Largest(bucket) < max_ ? Largest(bucket) : max_;
    }
    return max_;
  }

 private:
  static constexpr unsigned kPartBits = 7;
  static constexpr std::uint64_t kParts = 1 << kPartBits;

  static std::size_t BucketOf(Time value) {
    if (value < 2 * kParts) return value;
    const auto doubling = static_cast<unsigned>(std::bit_width(value)) - kPartBits - 1;
    return doubling * kParts + (value >> doubling);
  }
  static Time Largest(std::size_t bucket) {
    if (bucket < 2 * kParts) return bucket;
    const std::size_t doubling = bucket / kParts - 1;
    return ((bucket - doubling * kParts + 1) << doubling) - 1;
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  unsigned __int128 sum_ = 0;
  Time min_ = kNever;
  Time max_ = 0;
};

}  // namespace zonemodel
