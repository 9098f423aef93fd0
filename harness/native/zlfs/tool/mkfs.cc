#include "zlfs/tool/commands.h"

namespace zlfs::tool {

IOStatus RunMkfs(const MkfsArguments& arguments) {
  OptionMap options = arguments.policy;
  std::unique_ptr<ZonedDevice> device;
  IOStatus status = OpenSpec(arguments.device, Access::kReadWrite, &options, &device);
  Policy policy;
  if (status.ok()) status = TakePolicy(&options, &policy);
  if (status.ok()) status = NothingLeft(options);
  if (status.ok()) status = MakeAux(arguments.aux);
  if (status.ok()) status = Mkfs(device.get(), policy, arguments.erase, arguments.label);
  return status;
}

}  // namespace zlfs::tool
