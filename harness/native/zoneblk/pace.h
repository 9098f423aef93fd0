// Converts between the model's virtual time and the kernel's clock. On the kernel's clock, a second
// of the model takes `dilation` seconds.

#pragma once

#include "model/parameters.h"

namespace zoneblk {

using zonemodel::Bytes;
using zonemodel::Time;

class Pace {
 public:
  Pace(Time start, std::uint64_t dilation) : start_(start), dilation_(dilation) {}

  [[nodiscard]] Time Model(Time clock) const { return (clock - start_) / dilation_; }
  // Returns the first time for which Model() returns `model`.
  [[nodiscard]] Time Clock(Time model) const { return start_ + model * dilation_; }
  [[nodiscard]] std::uint64_t dilation() const { return dilation_; }

 private:
  Time start_;
  std::uint64_t dilation_;
};

// Subtracts `overhead`, the time that the kernel and the server need for a request, from the fixed
// latencies of the model. Resets and finishes keep their times, which are far longer.
void TakeOff(zonemodel::Parameters* parameters, Time overhead);

}  // namespace zoneblk
