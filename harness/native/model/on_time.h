// Decides whether a request of a modelled drive was on time. Verdicts about times depend on it
// (docs/methods.md).

#pragma once

#include <algorithm>

#include "model/units.h"

namespace zonemodel {

// Returns whether a request is late by at most 2 % of its latency or 1 us of the model. `late` and
// `latency` are on the machine's clock, on which a second of the model takes `dilation` seconds.
inline bool IsOnTime(Time late, Time latency, Time dilation) {
  constexpr Time kMicrosecond = 1000;
  constexpr Time kFiftieth = 50;
  return late <= std::max(kMicrosecond * dilation, latency / kFiftieth);
}

}  // namespace zonemodel
