// Verification: compares reads with the contents that the operations so far must have produced.

#pragma once

#include <cstdint>
#include <string>

#include "kvmix/measure/target.h"

namespace kvmix {

class Checker {
 public:
  // `thorough` also compares values and ranges. Otherwise only the presence of keys is checked.
  explicit Checker(bool thorough) : thorough_(thorough) {}

  // Checks a read. It must be the source's last operation. Writes are ignored.
  void Check(const Operation& operation, const Outcome& outcome, Source* source);

  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }
  [[nodiscard]] const std::string& first() const { return first_; }

 private:
  [[nodiscard]] std::string Point(const Operation& operation, const Outcome& outcome,
                                  Source* source) const;
  [[nodiscard]] static std::string Range(const Operation& operation, const Outcome& outcome,
                                         Source* source);

  bool thorough_;
  std::uint64_t checked_ = 0;
  std::uint64_t wrong_ = 0;
  std::string first_;  // description of the first fault
};

}  // namespace kvmix
