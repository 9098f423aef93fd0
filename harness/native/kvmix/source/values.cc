#include "kvmix/source/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "kvmix/source/random.h"

namespace kvmix {
namespace {

constexpr std::size_t kTextBytes = 1 << 20;
constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kTagLength = 16;

}  // namespace

ValueMaker::ValueMaker(std::size_t size, double compression_ratio) : value_(size, '.') {
  const std::size_t tail = size - std::min(size, kTagLength);
  const double wanted = std::round(static_cast<double>(size) * compression_ratio);
  const auto random = static_cast<std::size_t>(std::max(0.0, wanted));
  random_ = std::min(tail, random - std::min(random, kTagLength));
  // Long enough for a value to start anywhere in the first kTextBytes.
  text_.resize(kTextBytes + random_);
  Random source(0x6b766d6978, 0);  // the text is the same in every run
  for (char& letter : text_) letter = kLetters[source.Next() >> 58];
}

const std::string& ValueMaker::Make(std::uint64_t tag) {
  const std::size_t length = std::min(value_.size(), kTagLength);
  for (std::size_t i = 0; i < length; ++i) value_[i] = kDigits[tag >> (60 - 4 * i) & 15];
  std::memcpy(value_.data() + length, text_.data() + tag % kTextBytes, random_);
  return value_;
}

}  // namespace kvmix
