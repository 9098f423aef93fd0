#include "kvmix/source/distribution.h"

#include <algorithm>
#include <cmath>

namespace kvmix {
namespace {

constexpr std::uint64_t kSummed = 1000;

double Sum(std::uint64_t n, double theta) {
  double sum = 0;
  for (std::uint64_t i = n; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

}  // namespace

double Zeta(std::uint64_t n, double theta) {
  if (n <= kSummed) return Sum(n, theta);
  thread_local double of = -1;  // theta of the cached head, which is the same for all n
  thread_local double head = 0;
  if (of != theta) {
    head = Sum(kSummed, theta);
    of = theta;
  }
  const double m = kSummed;
  const double x = static_cast<double>(n);
  const double m_power = std::pow(m, -theta);
  const double x_power = std::pow(x, -theta);
  return head + (x * x_power - m * m_power) / (1 - theta) + (x_power - m_power) / 2 +
         theta / 12 * (m_power / m - x_power / x);
}

Zipfian::Zipfian(double theta)
    : theta_(theta), alpha_(1 / (1 - theta)), second_(1 + std::pow(0.5, theta)) {}

void Zipfian::Prepare(std::uint64_t n) {
  n_ = n;
  zeta_ = Zeta(n, theta_);
  // For n <= 2, Next takes only its exact branches and does not use eta_.
  eta_ =
      n <= 2 ? 0 : (1 - std::pow(2.0 / static_cast<double>(n), 1 - theta_)) / (1 - second_ / zeta_);
}

std::uint64_t Zipfian::Next(Random* random, std::uint64_t n) {
  if (n != n_) Prepare(n);
  const double share = random->Share();
  const double scaled = share * zeta_;
  if (scaled < 1 || n == 1) return 0;
  if (scaled < second_ || n == 2) return 1;
  const double rank = static_cast<double>(n) * std::pow(eta_ * share - eta_ + 1, alpha_);
  return std::min(static_cast<std::uint64_t>(rank), n - 1);
}

}  // namespace kvmix
