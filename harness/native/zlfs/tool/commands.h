// The sub-commands of the program `zlfs`, and what they share.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zlfs/fs/volume.h"

namespace zlfs::tool {

// What the command line says; each command looks at its own options.
struct Arguments {
  std::string device;  // "dev:…", "mem:…" or "file:…"
  std::string format = "table";
  std::string aux;
  std::string trace;
  std::string label;
  std::string erase;
  OptionMap policy;
  std::string name;
  std::string from;
  std::optional<std::uint64_t> size;  // as is the seed, where there is no `from`
  std::optional<std::uint64_t> seed;
  bool progress = false;

  bool violated = false;  // what fsck found
};

IOStatus RunMkfs(Arguments* arguments);
IOStatus RunImport(Arguments* arguments);
IOStatus RunDf(Arguments* arguments);
IOStatus RunList(Arguments* arguments);
IOStatus RunDump(Arguments* arguments);
IOStatus RunFsck(Arguments* arguments);

}  // namespace zlfs::tool
