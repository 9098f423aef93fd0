#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "zlfs/fs/check.h"
#include "zlfs/tool/commands.h"

namespace zlfs::tool {

IOStatus RunDump(const std::string& device) {
  std::unique_ptr<Volume> volume;
  const IOStatus status = MountToRead(device, &volume);
  if (status.ok()) std::puts(DumpJson(volume.get()).c_str());
  return status;
}

IOStatus RunList(const std::string& device, Format format) {
  std::unique_ptr<Volume> volume;
  const IOStatus status = MountToRead(device, &volume);
  if (!status.ok()) return status;
  nlohmann::ordered_json list = {{"schema_version", 1}, {"files", nlohmann::json::array()}};
  for (const FileInfo& file : volume->Files()) {
    if (format == Format::kTable) {
      std::printf("%15" PRIu64 "  %s\n", file.size, file.name.c_str());
    }
    list["files"].push_back({{"name", file.name},
                             {"size", file.size},
                             {"extents", file.extents.size()},
                             {"modified", file.modified}});
  }
  if (format == Format::kJson) std::puts(list.dump().c_str());
  return status;
}

}  // namespace zlfs::tool
