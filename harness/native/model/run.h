// Plays jobs on a model, in parallel threads.

#pragma once

#include <string>
#include <vector>

#include "model/fields.h"

namespace zonemodel {

// Sets the value of a field, for example "flash.program=2.5ms". Throws BadInput if it does not
// exist.
void Set(const std::string& assignment, Json* model);

// Plays each job on its own new drive. The result does not depend on `threads`.
Json RunJobs(const Json& model, const std::vector<Json>& jobs, unsigned threads);
// Checks model and jobs as RunJobs does, but plays nothing.
void CheckJobs(const Json& model, const std::vector<Json>& jobs);

}  // namespace zonemodel
