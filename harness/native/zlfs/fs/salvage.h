// Copies the files of a volume out of it, as far as they can be read.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zlfs/fs/volume.h"

namespace zlfs {

struct Salvaged {
  std::string name;
  std::uint64_t size = 0;
  std::vector<std::string> losses = {};  // ranges that cannot be read
};

// Copies each file below `folder`, which it makes, with the directories of the volume. A file with
// losses gets the suffix ".damaged", and zeros where it cannot be read. Existing files, with or
// without the suffix, are an error ("exists"). All copies and their names are durable. A file that
// a kill left incomplete has the suffix ".partial". After an error, `files` are those that were
// copied; an error of the folder is "destination".
IOStatus Salvage(Volume* volume, const std::string& folder, std::vector<Salvaged>* files);

}  // namespace zlfs
