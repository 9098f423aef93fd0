// Reads models and jobs and plays the jobs, side by side in threads.

#pragma once

#include <string>
#include <vector>

#include "model/fields.h"

namespace zonemodel {

// Sets the value of a field, as in "flash.program=2.5ms".
void Set(const std::string& assignment, Json* model);

// Plays each job on a new drive. The result does not depend on `threads`.
Json RunJobs(const Json& model, const std::vector<Json>& jobs, unsigned threads);
// Reads model and jobs as RunJobs does, and plays nothing.
void CheckJobs(const Json& model, const std::vector<Json>& jobs);

}  // namespace zonemodel
