// coldfill: writes and verifies the cold data that ages an integration level.
//
// It prints progress to stderr as one JSON object per second, and the result to stdout as one JSON
// object. Exit: 0 done, 1 failed or bad block, 2 usage, 28 (ENOSPC) file system full.

#include <getopt.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "coldfill/block.h"
#include "coldfill/fill.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kFull = 28;  // ENOSPC on Linux; fixed as part of the interface

constexpr const char* kHelp =
    "usage: coldfill write --file F --bytes N --seed S [--block-size B] [--direct]\n"
    "       coldfill verify --file F --seed S [--bytes N]\n"
    "  --bytes       multiple of 4096 (verify: expected length, default: from the headers)\n"
    "  --block-size  bytes per write, multiple of 4096, at most 1 GiB (default 1048576)\n"
    "  --direct      use O_DIRECT if the file system supports it; the result shows the effect\n"
    "exit: 0 done, 1 failed or bad block, 2 usage, 28 file system full\n";

constexpr std::uint64_t kLargestBlockSize = 1ULL << 30;

struct Arguments {
  std::string file;
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> seed;
  std::uint64_t block_size = 1 << 20;
  bool direct = false;
};

int Usage(const std::string& problem) {
  std::fprintf(stderr, "coldfill: %s\n%s", problem.c_str(), kHelp);
  return kUsage;
}

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses the options after the subcommand. Returns nullopt for an invalid option, after a message
// on stderr.
std::optional<Arguments> Parse(int argc, char** argv) {
  static constexpr option kOptions[] = {
      {"file", required_argument, nullptr, 'f'}, {"bytes", required_argument, nullptr, 'n'},
      {"seed", required_argument, nullptr, 's'}, {"block-size", required_argument, nullptr, 'b'},
      {"direct", no_argument, nullptr, 'd'},     {nullptr, 0, nullptr, 0}};
  Arguments arguments;
  int option_letter = 0;
  while ((option_letter = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
    if (option_letter == '?') return std::nullopt;
    if (option_letter == 'f') arguments.file = optarg;
    if (option_letter == 'd') arguments.direct = true;
    if (option_letter == 'f' || option_letter == 'd') continue;
    const auto number = Number(optarg);
    if (!number) {
      std::fprintf(stderr, "coldfill: '%s' is not a number\n", optarg);
      return std::nullopt;
    }
    if (option_letter == 'n') arguments.bytes = number;
    if (option_letter == 's') arguments.seed = number;
    if (option_letter == 'b') arguments.block_size = *number;
  }
  if (optind != argc) {
    std::fprintf(stderr, "coldfill: unexpected argument '%s'\n", argv[optind]);
    return std::nullopt;
  }
  return arguments;
}

void Print(std::uint64_t bytes, double seconds) {
  std::fprintf(stderr, "{\"bytes\": %llu, \"seconds\": %.3f}\n",
               static_cast<unsigned long long>(bytes), seconds);
  std::fflush(stderr);
}

int RunWrite(const Arguments& arguments) {
  if (!arguments.bytes || *arguments.bytes % coldfill::kBlockSize != 0) {
    return Usage("--bytes must be a multiple of 4096");
  }
  if (arguments.block_size == 0 || arguments.block_size % coldfill::kBlockSize != 0 ||
      arguments.block_size > kLargestBlockSize) {
    return Usage("--block-size must be a multiple of 4096, at most 1 GiB");
  }
  const auto result = coldfill::Write({.file = arguments.file,
                                       .bytes = *arguments.bytes,
                                       .seed = *arguments.seed,
                                       .block_size = arguments.block_size,
                                       .direct = arguments.direct},
                                      Print);
  std::printf("{\"bytes\": %llu, \"seconds\": %.3f, \"direct\": %s, \"errno\": %d}\n",
              static_cast<unsigned long long>(result.bytes), result.seconds,
              result.direct ? "true" : "false", result.error);
  if (result.error == 0) return 0;
  std::fprintf(stderr, "coldfill: %s %s: %s\n", result.step.c_str(), arguments.file.c_str(),
               std::strerror(result.error));
  return result.error == ENOSPC ? kFull : kFailed;
}

int RunVerify(const Arguments& arguments) {
  const auto result = coldfill::Verify(
      {.file = arguments.file, .seed = *arguments.seed, .bytes = arguments.bytes}, Print);
  if (result.error != 0) {
    std::fprintf(stderr, "coldfill: read %s: %s\n", arguments.file.c_str(),
                 std::strerror(result.error));
    return kFailed;
  }
  const std::string bad =
      result.first_bad_block ? std::to_string(*result.first_bad_block) : std::string("null");
  std::printf("{\"bytes\": %llu, \"seconds\": %.3f, \"first_bad_block\": %s}\n",
              static_cast<unsigned long long>(result.blocks * coldfill::kBlockSize), result.seconds,
              bad.c_str());
  if (!result.first_bad_block) return 0;
  std::fprintf(stderr, "coldfill: block %s %s\n", bad.c_str(), result.what.c_str());
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "--help") {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (command != "write" && command != "verify")
    return Usage("the command must be write or verify");
  const auto arguments = Parse(argc - 1, argv + 1);
  if (!arguments) return Usage("invalid arguments");
  if (arguments->file.empty() || !arguments->seed) return Usage("--file and --seed are needed");
  return command == "write" ? RunWrite(*arguments) : RunVerify(*arguments);
}
