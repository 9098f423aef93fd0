#include "zlfs/zoned/open.h"

#include "zlfs/tool/commands.h"

namespace zlfs::tool {

IOStatus OpenSpec(const std::string& device, Access access, OptionMap* options,
                  std::unique_ptr<ZonedDevice>* opened) {
  const bool bare = device.find(':') == std::string::npos;
  DeviceSpec spec;
  IOStatus status = ParseSpec(bare ? "dev:" + device : device, &spec);
  if (status.ok()) status = OpenDevice(&spec, access, opened);
  if (!status.ok()) return status;
  if (options == nullptr) return NothingLeft(spec.options);
  options->merge(spec.options);
  return status;
}

}  // namespace zlfs::tool
