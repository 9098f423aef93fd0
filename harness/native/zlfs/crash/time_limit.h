// The time that a campaign may take.

#pragma once

#include <chrono>
#include <cstdint>

namespace zlfs::crash {

class TimeLimit {
 public:
  // 0: no limit.
  explicit TimeLimit(std::uint64_t seconds) : seconds_(seconds) {}
  bool Over() const {
    return seconds_.count() != 0 && std::chrono::steady_clock::now() - start_ >= seconds_;
  }

 private:
  const std::chrono::seconds seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace zlfs::crash
