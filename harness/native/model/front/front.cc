#include "model/front/front.h"

namespace zonemodel {

Front::Front(const FrontParameters& front)
    : front_(front), format_(front.logical_block == 512 ? front.small_format : 0) {
  const std::uint64_t every = front.stage_long_every;
  long_ = every == 1 ? kWhole : front.stage_long;
  short_ = every == 1 ? kWhole : (every * kWhole - long_) / (every - 1);
}

}  // namespace zonemodel
