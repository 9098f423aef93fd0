#include "model/run.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "model/load/job.h"
#include "model/load/simulation.h"
#include "model/parameters.h"

namespace zonemodel {

void Set(const std::string& assignment, Json* model) {
  const BadInput bad("'" + assignment + "' sets no field of the model",
                     "write group.field=value, for example flash.program=2.5ms");
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) throw bad;
  std::string path = "/";
  path += assignment.substr(0, equals);
  std::replace(path.begin(), path.end(), '.', '/');
  Json::json_pointer at;
  try {
    at = Json::json_pointer(path);
  } catch (const Json::exception&) {
    throw bad;
  }
  if (!model->contains(at)) throw bad;
  const std::string text = assignment.substr(equals + 1);
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  Json& field = (*model)[at];
  if (field.is_object() && field.contains("value")) {
    field["value"] = value;
  } else {
    field = value;
  }
}

Json RunJobs(const Json& model, const std::vector<Json>& jobs, unsigned threads) {
  const Parameters parameters = ReadParameters(model);
  std::vector<Job> read;
  for (const Json& job : jobs) read.push_back(ReadJob(job, parameters));
  std::vector<Json> results(read.size());
  std::vector<std::exception_ptr> failures(read.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < read.size(); i = next++) {
      try {
        results[i] = Simulation(parameters, read[i]).Run();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> running;
  for (unsigned i = 1; i < std::min<std::size_t>(threads, read.size()); ++i) {
    running.emplace_back(work);
  }
  work();
  for (std::thread& thread : running) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  Json report = {{"schema_version", 1}, {"results", Json::array()}};
  for (Json& result : results) report["results"].push_back(std::move(result));
  return report;
}

void CheckJobs(const Json& model, const std::vector<Json>& jobs) {
  const Parameters parameters = ReadParameters(model);
  for (const Json& job : jobs) ReadJob(job, parameters);
}

}  // namespace zonemodel
