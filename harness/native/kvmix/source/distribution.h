// Which of n items is asked for: uniform, zipfian, or the latest ones most.

#pragma once

#include <cstdint>

#include "kvmix/source/random.h"

namespace kvmix {

enum class Distribution { kUniform, kZipfian, kLatest };

// The generalised harmonic number H(n, theta) = sum of i^-theta for i = 1 … n, 0 < theta < 1.
// The first thousand terms are added up; beyond, the Euler-Maclaurin formula is exact to about
// 1e-13, and n may be as large as it likes.
double Zeta(std::uint64_t n, double theta);

// Ranks with zipfian frequencies, rank 0 most often. The formula of YCSB (Cooper et al., SoCC
// 2010), which is that of Gray et al., "Quickly generating billion-record synthetic databases",
// SIGMOD 1994: ranks 0 and 1 are exact, the others an approximation of them by one power function.
// The number of items may change from one draw to the next.
class Zipfian {
 public:
  explicit Zipfian(double theta);

  // A rank in [0, n), n > 0.
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

// Draws positions in a list that is ordered by age, oldest first.
class Chooser {
 public:
  Chooser(Distribution distribution, double theta) : distribution_(distribution), ranks_(theta) {}

  // A position in [0, n), n > 0. Zipfian: the oldest are the hottest; latest: the newest.
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
