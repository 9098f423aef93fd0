// Reproducible values: a value depends only on its tag.

#pragma once

#include <cstdint>
#include <string>

namespace kvmix {

// Values are printable and without white space, so that they fit in a line of text. A value starts
// with its tag in hexadecimal, truncated to the value's size. Then comes a slice of a fixed random
// text, which does not repeat within 1 MiB. Its length sets the compression ratio. One repeated
// character fills the rest.
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
