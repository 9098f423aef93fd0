// The interface that operations are applied to.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kvmix/source/operation.h"

namespace kvmix {

// The result of an operation. Each thread reuses one Outcome, so that operations do not allocate.
struct Outcome {
  bool found = false;                                        // point queries
  std::string value;                                         // only if `keep`
  std::uint64_t entries = 0;                                 // scans
  std::uint64_t bytes_read = 0;                              // keys and values
  bool keep = false;                                         // store the data for verification
  std::vector<std::pair<std::string, std::string>> scanned;  // only if `keep`
};

// One thread's connection to the database.
class Target {
 public:
  virtual ~Target() = default;
  // Returns false and sets `problem` if the operation fails. An absent key is not a failure.
  virtual bool Apply(const Operation& operation, Outcome* outcome, std::string* problem) = 0;
};

// Discards operations: measures how fast the source generates them.
class NoTarget : public Target {
 public:
  bool Apply(const Operation& operation, Outcome* outcome, std::string* /*problem*/) override {
    outcome->found = operation.kind == Kind::kQuery;  // the expected answer
    return true;
  }
};

}  // namespace kvmix
