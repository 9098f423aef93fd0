// zonemodel: plays jobs on a model of a drive, in virtual time. See README.md.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line/output.h"
#include "model/media/media.h"
#include "model/run.h"

namespace zonemodel {
namespace {

enum Exit : int { kDone = 0, kUsage = 2, kFailed = 4 };

struct Arguments {
  std::string model;
  std::vector<std::string> jobs;
  std::vector<std::string> set;
  unsigned threads = 1;
  std::vector<std::string> writes;
  bool ignore_discards = false;
  std::uint32_t rounds = 4;
};

Json ReadFile(const std::string& name) {
  Json json;
  if (name == "-") {
    json = Json::parse(std::cin, nullptr, false);
  } else {
    std::ifstream file(name);
    if (!file) throw BadInput("cannot read " + name, "check the name");
    json = Json::parse(file, nullptr, false);
  }
  if (json.is_discarded()) throw BadInput(name + " is not JSON", "zonelab converts YAML to JSON");
  return json;
}

std::vector<Json> ReadJobs(const std::vector<std::string>& names) {
  std::vector<Json> jobs;
  for (const std::string& name : names) {
    const Json json = ReadFile(name);
    if (json.is_array()) {
      jobs.insert(jobs.end(), json.begin(), json.end());
    } else {
      jobs.push_back(json);
    }
  }
  return jobs;
}

Json ReadModel(const Arguments& arguments) {
  Json model = ReadFile(arguments.model);
  for (const std::string& assignment : arguments.set) Set(assignment, &model);
  return model;
}

void AddInputs(CLI::App* command, Arguments* arguments) {
  command->add_option("--model", arguments->model, "JSON of the model; - reads stdin")->required();
  command->add_option("--job", arguments->jobs, "JSON of a job or of an array of jobs; repeatable")
      ->required()
      ->take_all();
  command
      ->add_option("--set", arguments->set,
                   "replace a value of the model: group.field=value; repeatable")
      ->take_all();
}

void AddCommands(CLI::App* app, Arguments* arguments) {
  app->require_subcommand(1);
  app->footer(
      "Examples:\n"
      "  zonemodel run --model zn540-1tb.json --job randread-4k.json\n"
      "  zonemodel run --model m.json --job a.json --job b.json --threads 2\n"
      "  zonemodel run --model m.json --job a.json --set flash.program=2.5ms\n"
      "  zonemodel check --model m.json --job a.json");
  CLI::App* run = app->add_subcommand("run", "play jobs, each on a new drive; JSON on stdout");
  AddInputs(run, arguments);
  run->add_option("--threads", arguments->threads, "number of jobs to play at the same time")
      ->check(CLI::Range(1U, 64U));
  run->callback([arguments] {
    const Json model = ReadModel(*arguments);
    std::puts(RunJobs(model, ReadJobs(arguments->jobs), arguments->threads).dump().c_str());
  });
  CLI::App* check = app->add_subcommand("check", "check model and jobs, and play nothing");
  AddInputs(check, arguments);
  check->callback([arguments] { CheckJobs(ReadModel(*arguments), ReadJobs(arguments->jobs)); });
}

void AddMedia(CLI::App* app, Arguments* arguments) {
  CLI::App* media = app->add_subcommand(
      "media", "play recorded writes on one conventional drive, without times; JSON on stdout");
  media->add_option("--model", arguments->model, "JSON of the model; - reads stdin")->required();
  media->add_flag("--ignore-discards", arguments->ignore_discards,
                  "play a drive that ignores discards");
  media
      ->add_option("--rounds", arguments->rounds,
                   "rounds of random overwrites before the first file")
      ->check(CLI::Range(0U, 100U));
  media->add_option("files", arguments->writes, "files of recorded writes, in order")->required();
  media->callback([arguments] {
    const Json report = PlayMedia(ReadModel(*arguments), arguments->writes,
                                  arguments->ignore_discards, arguments->rounds);
    std::puts(report.dump().c_str());
  });
}

int Complain(Exit exit, const std::string& message, const std::string& hint) {
  std::fprintf(stderr, "zonemodel: %s\nhint: %s\n", message.c_str(), hint.c_str());
  return exit;
}

int Main(int argc, char** argv) {
  CLI::App app("Plays jobs on a model of a drive, in virtual time.", "zonemodel");
  Arguments arguments;
  try {
    AddCommands(&app, &arguments);
    AddMedia(&app, &arguments);
    app.parse(argc, argv);
    command_line::FlushOutput();
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Complain(kUsage, error.what(), "see zonemodel --help");
  } catch (const BadInput& bad) {
    return Complain(kUsage, bad.what(), bad.hint);
  } catch (const command_line::Unwritten& lost) {
    return Complain(kFailed, lost.what(), command_line::Unwritten::kHint);
  } catch (const std::exception& error) {
    return Complain(kFailed, error.what(), "this is a defect");
  }
  return kDone;
}

}  // namespace
}  // namespace zonemodel

int main(int argc, char** argv) { return zonemodel::Main(argc, argv); }
