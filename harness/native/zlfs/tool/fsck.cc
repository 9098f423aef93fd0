#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "zlfs/fs/check.h"
#include "zlfs/tool/commands.h"

namespace zlfs::tool {

IOStatus RunFsck(const std::string& device, Format format, bool* violated) {
  std::unique_ptr<ZonedDevice> opened;
  IOStatus status = OpenSpec(device, Access::kReadOnly, nullptr, &opened);
  std::vector<Violation> violations;
  if (status.ok()) status = Check(opened.get(), &violations);
  if (!status.ok()) return status;
  *violated = !violations.empty();
  nlohmann::ordered_json json = {{"schema_version", 1}, {"violations", nlohmann::json::array()}};
  for (const Violation& violation : violations) {
    if (format == Format::kTable) {
      std::printf("%2d  %s\n", violation.invariant, violation.what.c_str());
    }
    json["violations"].push_back({{"invariant", violation.invariant}, {"what", violation.what}});
  }
  if (format == Format::kJson) {
    std::puts(json.dump().c_str());
  } else if (violations.empty()) {
    std::puts("no violations");
  }
  return status;
}

}  // namespace zlfs::tool
