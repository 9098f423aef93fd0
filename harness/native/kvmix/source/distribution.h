// Chooses one of n items: uniform, zipfian, or skewed to the latest items.

#pragma once

#include <cstdint>

#include "kvmix/source/random.h"

namespace kvmix {

enum class Distribution { kUniform, kZipfian, kLatest };

// The generalised harmonic number H(n, theta) = sum of i^-theta for i = 1 … n, 0 < theta < 1.
// The first thousand terms are summed. The Euler-Maclaurin formula covers the rest with an error of
// about 1e-13, so the cost does not depend on n.
double Zeta(std::uint64_t n, double theta);

// Draws ranks with zipfian frequencies; rank 0 is the most frequent. YCSB (Cooper et al., SoCC
// 2010) uses the same formula. It comes from Gray et al., "Quickly generating billion-record
// synthetic databases", SIGMOD 1994. Ranks 0 and 1 are exact; one power function approximates the
// others. The number of items may change between draws.
class Zipfian {
 public:
  explicit Zipfian(double theta);

  // Returns a rank in [0, n), n > 0.
  std::uint64_t Next(Random* random, std::uint64_t n);

 private:
  void Prepare(std::uint64_t n);

  double theta_;
  double alpha_;   // 1 / (1 - theta)
  double second_;  // 1 + 0.5^theta, H(2)
  std::uint64_t n_ = 0;
  double zeta_ = 0;
  double eta_ = 0;
};

// Draws positions in a list that is sorted by age, oldest first.
class Chooser {
 public:
  Chooser(Distribution distribution, double theta) : distribution_(distribution), ranks_(theta) {}

  // Returns a position in [0, n), n > 0. The hottest items are the oldest for kZipfian and the
  // newest for kLatest.
  std::uint64_t Next(Random* random, std::uint64_t n) {
    switch (distribution_) {
      case Distribution::kZipfian:
        return ranks_.Next(random, n);
      case Distribution::kLatest:
        return n - 1 - ranks_.Next(random, n);
      case Distribution::kUniform:
        break;
    }
    return random->Below(n);
  }

 private:
  Distribution distribution_;
  Zipfian ranks_;
};

}  // namespace kvmix
