// zoneblk: serves a modelled drive as a block device of the kernel, through ublk. See README.md.

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "command_line/output.h"
#include "model/run.h"
#include "zoneblk/contents.h"
#include "zoneblk/control.h"
#include "zoneblk/disk.h"
#include "zoneblk/pace.h"
#include "zoneblk/server.h"
#include "zoneblk/status.h"

namespace zoneblk {
namespace {

enum Exit : int { kDone = 0, kUsage = 2, kRefused = 3, kFailed = 4 };

struct Arguments {
  std::string model;
  std::vector<std::string> set;
  bool conventional = false;
  std::uint64_t dilation = 1;
  std::string overhead = "0us";
  std::string wakeup = "0us";
  std::uint64_t seed = 1;
  std::uint32_t depth = 128;
  std::string contents;
  std::string sockets = "/run/zoneblk";
  bool realtime = false;
  std::string uuid;
};

zonemodel::Json ReadModel(const Arguments& arguments) {
  zonemodel::Json model;
  if (arguments.model == "-") {
    model = zonemodel::Json::parse(std::cin, nullptr, false);
  } else {
    std::ifstream file(arguments.model);
    if (!file) throw zonemodel::BadInput("cannot read " + arguments.model, "check the name");
    model = zonemodel::Json::parse(file, nullptr, false);
  }
  if (model.is_discarded()) {
    throw zonemodel::BadInput(arguments.model + " is not JSON", "zonelab converts YAML to JSON");
  }
  for (const std::string& assignment : arguments.set) zonemodel::Set(assignment, &model);
  return model;
}

zonemodel::Parameters ParametersOf(const zonemodel::Json& model, const Arguments& arguments) {
  zonemodel::Parameters parameters = zonemodel::ReadParameters(model);
  if (arguments.conventional ? !parameters.ftl : !parameters.zones) {
    const std::string kind = arguments.conventional ? "conventional" : "zoned";
    throw zonemodel::BadInput("model " + parameters.name + " has no " + kind + " namespace",
                              "name another model");
  }
  const Time overhead = zonemodel::ParseTime(arguments.overhead);
  if (zonemodel::ParseTime(arguments.wakeup) > overhead) {
    throw zonemodel::BadInput("--wakeup exceeds --overhead, but must be a part of it",
                              "measure both: docs/rigs.md");
  }
  TakeOff(&parameters, overhead / arguments.dilation);
  return parameters;
}

// Returns why `text` is no UUID, or an empty text.
std::string WhyNoUuid(const std::string& text) {
  static const std::regex kForm("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
  return std::regex_match(text, kForm) ? "" : text + " is not a UUID in lower case";
}

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// PR_SET_IO_FLUSHER: the kernel must not write to the device itself to free memory for its server.
void Prepare(bool realtime) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  prctl(PR_SET_IO_FLUSHER, 1UL, 0UL, 0UL, 0UL);
  const sched_param priority{.sched_priority = 1};
  if (realtime && sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    throw std::system_error(errno, std::generic_category(), "SCHED_FIFO");
  }
}

// Serves device `number` until its end. Starting and stopping it need threads of their own, because
// the kernel reads and writes during these calls.
void Run(const Arguments& arguments, const zonemodel::Json& model, std::uint32_t number, Disk* disk,
         Control* control) {
  const std::string device = "ublkb" + std::to_string(number);
  const Identity identity{.device = device,
                          .uuid = arguments.uuid.empty() ? NewUuid() : arguments.uuid,
                          .model = NameOf(model),
                          .dilation = arguments.dilation,
                          .overhead = zonemodel::ParseTime(arguments.overhead),
                          .wakeup = zonemodel::ParseTime(arguments.wakeup)};
  std::exception_ptr failure;
  std::jthread starter;
  std::jthread stopper;
  const Contents contents(arguments.contents, disk->size(), disk->capacity());
  Server server(number, arguments.depth, disk, &contents,
                Lateness(identity.wakeup, identity.dilation));
  const Socket socket(SocketOf(arguments.sockets, number));
  server.Offer();
  starter = std::jthread([&] {
    try {
      control->Start();
      std::printf("{\"device\": \"%s\"}\n", device.c_str());
      command_line::FlushOutput();
    } catch (...) {
      failure = std::current_exception();
      control->Stop();
    }
  });
  Prepare(arguments.realtime);
  server.Serve(identity, socket, StopSignals(), [&] {
    stopper = std::jthread([&] {
      starter.join();
      control->Stop();
    });
  });
  if (stopper.joinable()) stopper.join();
  if (starter.joinable()) starter.join();
  if (failure) std::rethrow_exception(failure);
}

void Serve(const Arguments& arguments) {
  const zonemodel::Json model = ReadModel(arguments);
  const zonemodel::Parameters parameters = ParametersOf(model, arguments);
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  Disk disk(parameters, !arguments.conventional, arguments.depth, arguments.seed);
  Control control(disk.zoned());
  for (const std::uint32_t killed : KilledServers(arguments.sockets)) {
    if (control.DeleteDead(killed)) unlink(SocketOf(arguments.sockets, killed).c_str());
  }
  const std::uint32_t number = control.Add(disk, arguments.depth);
  try {
    Run(arguments, model, number, &disk, &control);
  } catch (...) {
    control.Delete();
    throw;
  }
  control.Delete();
}

void AddOptions(CLI::App* serve, Arguments* arguments) {
  serve->add_option("--model", arguments->model, "JSON of the model; - reads stdin")->required();
  serve
      ->add_option("--set", arguments->set,
                   "replace a value of the model: group.field=value; repeatable")
      ->take_all();
  serve->add_flag("--conventional", arguments->conventional, "serve the conventional namespace");
  serve->add_option("--dilation", arguments->dilation, "seconds per second of the model")
      ->check(CLI::Range(1U, 2000U));
  serve->add_option("--overhead", arguments->overhead,
                    "time to subtract from each request, for example 26us");
  serve->add_option("--wakeup", arguments->wakeup,
                    "part of --overhead after the due time, for example 5us");
  serve->add_option("--seed", arguments->seed, "seed of the model's random numbers");
  serve->add_option("--depth", arguments->depth, "requests under way at once")
      ->check(CLI::Range(1U, 1024U));
  serve->add_option("--contents", arguments->contents, "folder for a sparse file; default: memory");
  serve->add_option("--sockets", arguments->sockets, "folder of the status socket");
  serve->add_option("--uuid", arguments->uuid, "UUID of the drive; default: a new one")
      ->check(CLI::Validator(WhyNoUuid, "UUID"));
  serve->add_flag("--realtime", arguments->realtime, "run under SCHED_FIFO");
}

int Complain(Exit exit, const std::string& message, const std::string& hint) {
  std::fprintf(stderr, "zoneblk: %s\nhint: %s\n", message.c_str(), hint.c_str());
  return exit;
}

int Main(int argc, char** argv) {
  CLI::App app("Serves a modelled drive as a block device, through ublk.", "zoneblk");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  zoneblk probe\n"
      "  zoneblk serve --model zn540-1tb.json --set zones.count=4 --dilation 8\n"
      "Exit codes: 0 done, 2 bad input, 3 refused by the kernel, 4 failed");
  Arguments arguments;
  CLI::App* probe =
      app.add_subcommand("probe", "check whether this kernel can serve zoned devices");
  probe->callback([] { const Control control(true); });
  CLI::App* serve = app.add_subcommand("serve", "serve a device until SIGTERM, SIGINT or SIGHUP");
  AddOptions(serve, &arguments);
  serve->callback([&arguments] { Serve(arguments); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Complain(kUsage, error.what(), "see zoneblk --help");
  } catch (const zonemodel::BadInput& bad) {
    return Complain(kUsage, bad.what(), bad.hint);
  } catch (const Refused& refused) {
    return Complain(kRefused, std::string(refused.code) + ": " + refused.what(), refused.hint);
  } catch (const command_line::Unwritten& lost) {
    return Complain(kFailed, lost.what(), command_line::Unwritten::kHint);
  } catch (const std::exception& error) {
    return Complain(kFailed, error.what(), "see dmesg");
  }
  return kDone;
}

}  // namespace
}  // namespace zoneblk

int main(int argc, char** argv) { return zoneblk::Main(argc, argv); }
