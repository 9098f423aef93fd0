#include "zlfs/zoned/open.h"

#include <filesystem>
#include <system_error>
#include <utility>

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

IOStatus MountToRead(const std::string& device, std::unique_ptr<Volume>* volume) {
  std::unique_ptr<ZonedDevice> opened;
  const IOStatus status = OpenSpec(device, Access::kReadOnly, nullptr, &opened);
  if (!status.ok()) return status;
  return Volume::Mount(std::move(opened), {.read_only = true, .policy = {}, .ledger_path = {}},
                       volume);
}

IOStatus MakeAux(const std::string& aux) {
  std::error_code error;
  if (!aux.empty()) std::filesystem::create_directories(aux, error);
  return error ? IOStatus::IOError("aux", aux + ": " + error.message()) : IOStatus::OK();
}

}  // namespace zlfs::tool
