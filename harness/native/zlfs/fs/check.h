// What the zlfs tool does beside mounting: check, dump, import.

#pragma once

#include <functional>
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

// Gives the next part of a file's content; an empty one at its end.
using Source = std::function<IOStatus(Slice* part)>;

// Makes a file that does not exist yet ("exists") of that content, durably, and finishes the zone
// that it filled last. Counted as cause `import`.
IOStatus Import(Volume* volume, const std::string& name, const Source& next);

}  // namespace zlfs
