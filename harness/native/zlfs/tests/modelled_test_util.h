// The JSON file of a small modelled drive.

#pragma once

#include <fstream>
#include <string>

#include "model/tests/small_drive.h"

namespace zlfs {

// 20 zones of 1 MiB in 2 MiB, six of them active, on the flash of SmallDrive().
inline zonemodel::Json SmallZones() {
  zonemodel::Json model = zonemodel::SmallDrive();
  model["zones"]["count"] = 20;
  model["zones"]["max_open"] = 6;
  model["zones"]["max_active"] = 6;
  return model;
}

inline std::string WriteModel(const std::string& path,
                              const zonemodel::Json& model = SmallZones()) {
  std::ofstream(path) << model.dump();
  return path;
}

}  // namespace zlfs
