// Shared parts of the command line programs that use zlfs: common options, error messages and exit
// statuses. Data goes to stdout; errors and hints go to stderr.

#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "command_line/output.h"
#include "zlfs/alloc/policy.h"
#include "zlfs/zoned/open.h"

namespace command_line {

enum Exit : int { kDone = 0, kUsage = 2, kRefused = 3, kFailed = 4 };

struct Meaning {
  std::string_view name;  // prefix of the status's message
  Exit exit;
  const char* hint;
};

// Errors of devices. A program's own meanings come first.
inline constexpr Meaning kDeviceMeanings[] = {
    {"bad-spec", kUsage,
     "name a device as nvme0n2, /dev/nvme0n2, file:PATH?…, mem:NAME?… or model:FILE?…"},
    {"missing", kRefused, "check the name of the device"},
    {"not-zoned", kRefused, "name a zoned namespace: lsblk -o NAME,ZONED"},
    {"bad-image", kRefused, "the file is no emulated device, or has another shape"},
    {"busy", kRefused, "another program uses the device"},
    {"permission", kRefused, "run as root, or give yourself access to the device"},
    {"", kFailed, "see the kernel's log"}};

struct Program {
  const char* name;
  const char* what;
  const char* help;                   // the hint after a usage error
  std::span<const Meaning> meanings;  // an empty name matches any message
  bool on_one_line = false;           // print the hint in brackets after the message
};

inline Exit Complain(const Program& program, Exit exit, const std::string& text, const char* hint) {
  std::fprintf(stderr, program.on_one_line ? "%s: %s (%s)\n" : "%s: %s\nhint: %s\n", program.name,
               text.c_str(), hint);
  return exit;
}

// `add` adds options and subcommands. Their callbacks do the work and set the status.
inline int Main(const Program& program, int argc, char** argv,
                const std::function<void(CLI::App* app, zlfs::IOStatus* status)>& add) {
  CLI::App app(program.what, program.name);
  zlfs::IOStatus status;
  try {
    add(&app, &status);
    app.parse(argc, argv);
    if (status.ok()) FlushOutput();
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Complain(program, kUsage, error.what(), program.help);
  } catch (const Unwritten& lost) {
    return Complain(program, kFailed, lost.what(), Unwritten::kHint);
  } catch (const std::exception& error) {
    return Complain(program, kFailed, error.what(), "this is a defect");
  }
  if (status.ok()) return kDone;
  const std::string text = status.getState() == nullptr ? status.ToString() : status.getState();
  const auto fits = [&text](const Meaning& one) { return text.starts_with(one.name); };
  const auto own = std::ranges::find_if(program.meanings, fits);
  const Meaning& meaning =
      own != program.meanings.end() ? *own : *std::ranges::find_if(kDeviceMeanings, fits);
  return Complain(program, meaning.exit, text, meaning.hint);
}

inline void AddDevice(CLI::App* command, std::string* device) {
  command
      ->add_option("--device", *device,
                   "nvme0n2, /dev/nvme0n2, file:PATH?…, mem:NAME?… or model:FILE?…")
      ->required()
      ->transform([](const std::string& name) {
        return name.find(':') == std::string::npos ? "dev:" + name : name;
      });
}

// Adds one option per policy except `except`. Options have the names of the URI's policies, with
// hyphens.
inline void AddPolicies(CLI::App* command, zlfs::OptionMap* policies,
                        std::string_view except = "") {
  for (const zlfs::PolicyField& field : zlfs::kPolicyFields) {
    if (field.name == except) continue;
    const std::string name(field.name);
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    std::string what(field.what);
    for (const std::string_view word : field.words) {
      what.append(word == field.words.front() ? ": " : ", ").append(word);
    }
    command->add_option_function<std::string>(
        flag, [policies, name](const std::string& value) { (*policies)[name] = value; }, what);
  }
}

}  // namespace command_line
