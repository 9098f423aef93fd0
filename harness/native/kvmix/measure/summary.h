// The result as JSON. It is the program's last output.

#pragma once

#include <nlohmann/json.hpp>

#include "kvmix/measure/run.h"

namespace kvmix {

// Returns `operations`, `seconds`, `user_bytes`, `kinds`, `verified` and `interrupted`. `kinds`
// holds only the kinds that occurred, by name. Each has a `service` histogram in ns and, in an open
// loop, an `intended` one.
nlohmann::ordered_json Summary(const RunResult& result);

}  // namespace kvmix
