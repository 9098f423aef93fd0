// Log-linear latency histograms.

#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace kvmix {

// Nanoseconds in buckets (low, high]. Up to 64 ns each value has its own bucket. Above, every power
// of two is divided into 32 equal buckets. A bucket is therefore at most 1/32 (3.1 %) of its values
// wide, which bounds the error of quantiles. A histogram takes 15 KiB; recording is a shift and an
// addition.
class Histogram {
 public:
  void Record(std::uint64_t nanoseconds) {
    ++counts_[BucketOf(nanoseconds)];
    ++count_;
    sum_ += nanoseconds;
    if (nanoseconds < min_) min_ = nanoseconds;
    if (nanoseconds > max_) max_ = nanoseconds;
  }
  void Add(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }

  struct Bucket {
    std::uint64_t low;
    std::uint64_t high;
    std::uint64_t count;
  };
  // Returns the non-empty buckets in ascending order.
  [[nodiscard]] std::vector<Bucket> Buckets() const;

  // The index of a value's bucket, and the largest value of a bucket.
  static constexpr std::size_t BucketOf(std::uint64_t value) {
    const std::uint64_t x = value == 0 ? 0 : value - 1;  // buckets exclude their lower bound
    if (x < 2 * kParts) return x;
    const auto doubling = static_cast<unsigned>(std::bit_width(x)) - kPartBits - 1;
    return doubling * kParts + (x >> doubling);
  }
  static constexpr std::uint64_t Largest(std::size_t bucket) {
    if (bucket < 2 * kParts) return bucket + 1;
    if (bucket == kBuckets - 1) return ~std::uint64_t{0};  // 2^64 does not fit
    const std::size_t doubling = bucket / kParts - 1;
    return (bucket - doubling * kParts + 1) << doubling;
  }

 private:
  static constexpr unsigned kPartBits = 5;
  static constexpr std::size_t kParts = 1 << kPartBits;
  static constexpr std::size_t kBuckets = (64 - kPartBits + 1) * kParts;

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
};

}  // namespace kvmix
