// Functions of the program `zlfs`: check, dump, import.

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

// Checks all invariants without a change of the device. Returns an error only if the device cannot
// be read. An empty list means that all invariants hold.
IOStatus Check(ZonedDevice* device, std::vector<Violation>* violations);

// Returns the superblock, the files with their extents, and the zones as one JSON object. Also
// works with a read-only mount.
std::string DumpJson(Volume* volume);

// Returns the next part of a file's content. An empty part marks the end.
using Source = std::function<IOStatus(Slice* part)>;

// Creates a durable file from the source and finishes the last zone that it uses. Fails with
// "exists" if the file exists. The ledger counts the writes under cause `import`.
IOStatus Import(Volume* volume, const std::string& name, const Source& next);

}  // namespace zlfs
