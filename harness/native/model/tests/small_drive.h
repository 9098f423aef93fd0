// A small drive with round times, and jobs on it.

#pragma once

#include <string>
#include <vector>

#include "model/fields.h"
#include "model/run.h"

namespace zonemodel {

// 2 channels x 2 ways, 16 zones of 1 MiB (stripes of 256 KiB), and a conventional namespace of 64
// MiB.
inline Json SmallDrive() {
  return Json::parse(R"({
  "schema_version": 1, "name": "small",
  "flash": {"channels": 2, "ways": 2, "program_unit": "64KiB", "page": "16KiB", "channel_rate": "1000MiB/s",
            "channel_read_rate": "1000MiB/s", "read_4k": "50us", "read_page": "62us", "read_spread": "0us", "program": "1ms",
            "suspend_min": "20us", "suspend_max": "20us", "resume": "10us", "max_suspends": 2, "erase": "3ms"},
  "front": {"link_rate": "4000MiB/s", "link_command": "0us", "read": "5us", "write": "10us", "append": "13us", "flush": "5us",
            "report": "20us", "trim": "10us", "stage_read": "2us", "stage_write": "5us", "stage_append": "7us",
            "partial_below": "0B", "partial": "0us", "stage_partial": "0us", "stage_long_every": 1, "stage_long_pct": 100,
            "inline": "8KiB", "list": "1us", "list_append": "1us", "write_rate": "1000MiB/s", "logical_block": "4KiB"},
  "buffer": {"size": "1MiB"},
  "host": {"gap": "1us", "gap_per_kib": "0us", "stacks": {
    "passthrough": {"submit": "0us", "list": "0us", "scheduler": "0us", "merge": "0B"},
    "merging": {"submit": "1us", "list": "0us", "scheduler": "2us", "merge": "64KiB"}}},
  "zones": {"count": 16, "size": "2MiB", "capacity": "1MiB", "channels": 2, "ways": 2, "max_open": 3, "max_active": 4,
            "open": "9us", "close": "11us", "finish_empty": "14us", "implicit_open": "2us", "finish": "0.5ms",
            "reset": [[0, "1ms"], [50, "5ms"], [100, "7ms"]], "reset_finished": [[0, "2ms"], [100, "4ms"]],
            "reset_spread_pct": 0, "reset_exclusive_pct": 0, "manage_read": "0us", "manage_write": "5us", "manage_append": "0us",
            "erase_at": "none"},
  "ftl": {"capacity": "64MiB", "map_unit": "4KiB", "over_provisioning_pct": 28, "block_units": 4, "collection": "greedy", "reserve": 3}
})");
}

// A job of one client. `more` holds further fields of the job.
inline Json OneClient(Json client, Json more = Json::object()) {
  client["name"] = "a";
  Json job = {{"schema_version", 1}, {"name", "test"}, {"clients", Json::array({client})}};
  job.update(more);
  return job;
}

inline Json Play(const Json& model, const Json& job) {
  return RunJobs(model, {job}, 1)["results"][0];
}

// Plays a job of one client. Returns the result of one kind of command.
inline Json PlayOne(const Json& model, const Json& job, const std::string& kind) {
  return Play(model, job)["clients"][0]["commands"].value(kind, Json());
}

}  // namespace zonemodel
