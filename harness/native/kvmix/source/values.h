// Values that can be computed again: what a value must be follows from its tag alone.

#pragma once

#include <cstdint>
#include <string>

namespace kvmix {

// Printable, without white space, so that values can stand in a line of text. A value begins with
// its tag in hexadecimal (as much of it as there is room for). The rest is a slice of one fixed
// random text, which does not repeat within 1 MiB, up to the share that shall be left after
// compression; then one character again and again.
class ValueMaker {
 public:
  ValueMaker(std::size_t size, double compression_ratio);

  // Valid until the next call.
  [[nodiscard]] const std::string& Make(std::uint64_t tag);

 private:
  std::string text_;
  std::size_t random_;  // bytes of the value that come from the text
  std::string value_;
};

}  // namespace kvmix
