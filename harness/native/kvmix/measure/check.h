// Verification: does the database give what the operations so far must have left in it?

#pragma once

#include <cstdint>
#include <string>

#include "kvmix/measure/target.h"

namespace kvmix {

class Checker {
 public:
  // `thorough`: values and ranges too; otherwise only whether keys are found that must be.
  explicit Checker(bool thorough) : thorough_(thorough) {}

  // Looks at a read that was made behind the source's last operation; ignores writes.
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
  std::string first_;  // the first fault in words
};

}  // namespace kvmix
