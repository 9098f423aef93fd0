// What the zlfs tool does beside mounting: check, dump, import.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zlfs/fs/volume.h"

namespace zlfs {

struct Violation {
  int invariant = 0;  // number in docs/zlfs.md
  std::string what;
};

// Checks every invariant without changing anything. The status is an error only if the device
// could not be read; an empty list means that everything holds.
IOStatus Check(ZonedDevice* device, std::vector<Violation>* violations);

// Superblock, files with their extents, and zones, as one JSON object. Volumes may be read-only.
std::string DumpJson(Volume* volume);

// Copies a file of the operating system into the volume, durably. Counted as cause `import`.
IOStatus Import(Volume* volume, const std::string& source, const std::string& name);

}  // namespace zlfs
