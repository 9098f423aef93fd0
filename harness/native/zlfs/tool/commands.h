// The sub-commands of the program `zlfs`, and what they share.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "zlfs/fs/options.h"
#include "zlfs/fs/volume.h"

namespace zlfs::tool {

enum class Format : std::uint8_t { kTable, kJson };

struct MkfsArguments {
  std::string device;
  std::string aux;
  std::string label;
  std::string erase;
  OptionMap policy;
};

struct ImportArguments {
  std::string device;
  std::string aux;
  std::string name;
  std::string from;
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> seed;
  bool progress = false;
};

IOStatus RunMkfs(const MkfsArguments& arguments);
IOStatus RunDf(const std::string& device, Format format);
IOStatus RunDump(const std::string& device);
IOStatus RunList(const std::string& device, Format format);
IOStatus RunImport(const ImportArguments& arguments);
IOStatus RunFsck(const std::string& device, Format format, bool* violated);

// `device` is "nvme0n2", "/dev/nvme0n2", "mem:…" or "file:…". Options that are not the device's go
// to `options`; where it is null there must be none.
IOStatus OpenSpec(const std::string& device, Access access, OptionMap* options,
                  std::unique_ptr<ZonedDevice>* opened);
// Beside whoever writes.
IOStatus MountToRead(const std::string& device, std::unique_ptr<Volume>* volume);
// Makes the directory; nothing when it is empty.
IOStatus MakeAux(const std::string& aux);

}  // namespace zlfs::tool
