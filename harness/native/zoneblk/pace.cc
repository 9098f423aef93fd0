#include "zoneblk/pace.h"

#include <algorithm>

namespace zoneblk {
namespace {

// Subtracts the overhead from `from`, down to 0. Returns the part that could not be subtracted.
Time Take(Time* from, Time overhead) {
  const Time part = std::min(*from, overhead);
  *from -= part;
  return overhead - part;
}

}  // namespace

void TakeOff(zonemodel::Parameters* parameters, Time overhead) {
  zonemodel::FrontParameters& front = parameters->front;
  for (Time* fixed : {&front.write, &front.append, &front.flush, &front.report, &front.trim}) {
    Take(fixed, overhead);
  }
  // Most of a read's time is in the die, so the rest comes off there.
  const Time rest = Take(&front.read, overhead);
  // The time of the fastest read, read_4k - read_spread, must not be negative.
  zonemodel::FlashParameters& flash = parameters->flash;
  const Time part = std::min(rest, flash.read_4k - flash.read_spread);
  flash.read_4k -= part;
  flash.read_page -= part;
  if (!parameters->zones) return;
  zonemodel::ZoneParameters& zones = *parameters->zones;
  for (Time* fixed : {&zones.open, &zones.close, &zones.finish_empty}) Take(fixed, overhead);
}

}  // namespace zoneblk
