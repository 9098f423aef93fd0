// The commands that write: they want the device for themselves.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "coldfill/block.h"
#include "zlfs/fs/check.h"
#include "zlfs/tool/commands.h"

namespace zlfs::tool {
namespace {

using Clock = std::chrono::steady_clock;

// Also the unit in which coldfill repeats its pattern: the same size gives the same bytes.
constexpr std::size_t kPart = 1 << 20;

// Makes the auxiliary directory; nothing when it is not named.
IOStatus MakeAux(const std::string& aux) {
  std::error_code error;
  if (!aux.empty()) std::filesystem::create_directories(aux, error);
  return error ? IOStatus::IOError("aux", aux + ": " + error.message()) : IOStatus::OK();
}

IOStatus FromFile(const std::string& path, Source* source) {
  const std::shared_ptr<std::FILE> file(std::fopen(path.c_str(), "rbe"),
                                        [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  if (file == nullptr) return IOStatus::PathNotFound("missing", path + ": " + std::strerror(errno));
  *source = [file, path, buffer = std::vector<char>(kPart)](Slice* part) mutable {
    *part = Slice(buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get()));
    return std::ferror(file.get()) ? IOStatus::IOError(path, std::strerror(errno)) : IOStatus::OK();
  };
  return IOStatus::OK();
}

// What `coldfill write --bytes=SIZE --seed=SEED` writes.
IOStatus FromSeed(std::uint64_t size, std::uint64_t seed, Source* source) {
  if (size % coldfill::kBlockSize != 0) {
    return IOStatus::InvalidArgument("bad-option", "--size is no multiple of 4096");
  }
  const auto words = std::make_shared<std::vector<std::uint64_t>>(kPart / sizeof(std::uint64_t));
  *source = [words, pattern = coldfill::Pattern(seed, size / coldfill::kBlockSize, *words), size,
             done = std::uint64_t{0}](Slice* part) mutable {
    pattern.Stamp(done / coldfill::kBlockSize);
    *part = Slice(reinterpret_cast<const char*>(words->data()),
                  std::min<std::uint64_t>(kPart, size - done));
    done += part->size();
    return IOStatus::OK();
  };
  return IOStatus::OK();
}

}  // namespace

IOStatus RunMkfs(Arguments* arguments) {
  OptionMap options = arguments->policy;
  std::unique_ptr<ZonedDevice> device;
  IOStatus status = OpenSpec(arguments->device, Access::kReadWrite, &options, &device);
  Policy policy;
  if (status.ok()) status = ChangePolicy(std::move(options), &policy);
  if (status.ok()) status = MakeAux(arguments->aux);
  if (status.ok()) status = Mkfs(device.get(), policy, arguments->erase, arguments->label);
  return status;
}

IOStatus RunImport(Arguments* arguments) {
  Source source;
  MountOptions options;
  std::unique_ptr<ZonedDevice> device;
  IOStatus status = arguments->size ? FromSeed(*arguments->size, *arguments->seed, &source)
                                    : FromFile(arguments->from, &source);
  if (status.ok()) {
    status = OpenSpec(arguments->device, Access::kReadWrite, &options.policy, &device);
  }
  if (status.ok()) status = MakeAux(arguments->aux);
  if (!arguments->aux.empty()) options.ledger_path = arguments->aux + "/ledger.jsonl";
  std::unique_ptr<Volume> volume;
  if (status.ok()) status = Volume::Mount(std::move(device), options, &volume);
  if (!status.ok()) return status;
  std::uint64_t bytes = 0;
  Clock::time_point next = Clock::now();
  status = Import(volume.get(), arguments->name, [&](Slice* part) {
    if (arguments->progress && Clock::now() >= next) {
      std::fprintf(stderr, "%" PRIu64 "\n", bytes);
      next = Clock::now() + std::chrono::seconds(1);
    }
    IOStatus got = source(part);
    bytes += part->size();
    return got;
  });
  const IOStatus closed = volume->Close();
  if (status.ok()) status = closed;
  if (!status.ok()) return status;
  std::puts(nlohmann::ordered_json({{"name", arguments->name}, {"bytes", bytes}}).dump().c_str());
  return status;
}

}  // namespace zlfs::tool
