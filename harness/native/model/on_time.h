// When a request of a slowed-down drive is on time. Verdicts on times need this (docs/methods.md).

#pragma once

#include <algorithm>

#include "model/units.h"

namespace zonemodel {

// Whether a request is at most 2 % of its latency, or 1 us of the model, late. `late` and `latency`
// are on the machine's clock, where a second of the model takes `dilation` seconds.
inline bool IsOnTime(Time late, Time latency, Time dilation) {
  constexpr Time kMicrosecond = 1000;
  constexpr Time kFiftieth = 50;
  return late <= std::max(kMicrosecond * dilation, latency / kFiftieth);
}

}  // namespace zonemodel
