// The result as JSON, which the program prints last.

#pragma once

#include <nlohmann/json.hpp>

#include "kvmix/measure/run.h"

namespace kvmix {

// `operations`, `seconds`, `user_bytes`, `kinds` (by name, those that occurred, each with its
// `service` and, in an open loop, `intended` histogram in ns), `verified`, `interrupted`.
nlohmann::ordered_json Summary(const RunResult& result);

}  // namespace kvmix
