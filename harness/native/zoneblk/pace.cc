#include "zoneblk/pace.h"

#include <algorithm>

namespace zoneblk {
namespace {

// Returns what `from` is too short for.
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
  // Most of a read's time is in the die.
  const Time rest = Take(&front.read, overhead);
  // A read that is faster by the spread still takes no negative time.
  zonemodel::FlashParameters& flash = parameters->flash;
  const Time part = std::min(rest, flash.read_4k - flash.read_spread);
  flash.read_4k -= part;
  flash.read_page -= part;
  if (!parameters->zones) return;
  zonemodel::ZoneParameters& zones = *parameters->zones;
  for (Time* fixed : {&zones.open, &zones.close, &zones.finish_empty}) Take(fixed, overhead);
}

}  // namespace zoneblk
