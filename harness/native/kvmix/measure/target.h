// What operations are applied to.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kvmix/source/operation.h"

namespace kvmix {

// What an operation gave. Kept by its thread and used again, so that nothing is allocated anew.
struct Outcome {
  bool found = false;                                        // point queries
  std::string value;                                         // only if `keep`
  std::uint64_t entries = 0;                                 // that a scan saw
  std::uint64_t bytes_read = 0;                              // keys and values
  bool keep = false;                                         // what was read is to be verified
  std::vector<std::pair<std::string, std::string>> scanned;  // only if `keep`
};

// One thread's way to the database.
class Target {
 public:
  virtual ~Target() = default;
  // False when the operation failed; `problem` then says how. An absent key is no failure.
  virtual bool Apply(const Operation& operation, Outcome* outcome, std::string* problem) = 0;
};

// Does nothing: for how fast operations are made.
class NoTarget : public Target {
 public:
  bool Apply(const Operation& operation, Outcome* outcome, std::string* /*problem*/) override {
    outcome->found = operation.kind == Kind::kQuery;  // as if all were well
    return true;
  }
};

}  // namespace kvmix
