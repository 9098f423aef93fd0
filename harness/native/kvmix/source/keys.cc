#include "kvmix/source/keys.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

namespace kvmix {
namespace {

// The permutation mixes smaller spaces poorly.
constexpr unsigned kFewestBits = 8;
// With fewer ids, a compacted list costs more than it saves.
constexpr std::uint64_t kFewestToCompact = 1024;

// The inverse of an odd number modulo 2^64, by Newton's iteration. An odd number is its own inverse
// modulo 8, and each step doubles the number of correct bits.
std::uint64_t Inverse(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int step = 0; step < 5; ++step) inverse *= 2 - odd * inverse;
  return inverse;
}

std::uint64_t Share(std::uint64_t total, unsigned slices, unsigned index) {
  return total / slices + (index < total % slices ? 1 : 0);
}

}  // namespace

Permutation::Permutation(unsigned bits, std::uint64_t seed)
    : mask_(bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1),
      shift_((bits + 1) / 2) {
  for (int round = 0; round < kRounds; ++round) {
    factors_[round] = Mix64(seed + static_cast<std::uint64_t>(round)) | 1;
    inverses_[round] = kvmix::Inverse(factors_[round]);
  }
}

unsigned PositionBits(const KeyOptions& options) {
  const std::uint64_t ids = Share(std::max(options.key_space, options.existing), options.slices, 0);
  const auto bits = static_cast<unsigned>(std::bit_width(ids > 0 ? ids - 1 : 0));
  return std::max(bits + 1, kFewestBits);
}

Slice::Slice(const KeyOptions& options, unsigned index)
    : key_size_(options.key_size),
      sequential_(options.sequential),
      positions_(std::uint64_t{1} << PositionBits(options)),
      capacity_(positions_ / 2),
      base_(index * positions_),
      permutation_(PositionBits(options), Mix64(options.key_seed) + index),
      next_(Share(options.existing, options.slices, index)),
      live_(next_),
      bits_(next_ / 64 + 1, ~std::uint64_t{0}) {
  bits_.back() = (std::uint64_t{1} << (next_ % 64)) - 1;
}

std::uint64_t Slice::Insert() {
  const std::uint64_t id = next_++;
  if (id / 64 == bits_.size()) bits_.push_back(0);
  bits_[id / 64] |= std::uint64_t{1} << (id % 64);
  if (!ids_.empty()) ids_.push_back(id);
  ++live_;
  return id;
}

void Slice::Delete(std::uint64_t id) {
  bits_[id / 64] &= ~(std::uint64_t{1} << (id % 64));
  --live_;
  if (live_ < Slots() / 2 && Slots() >= kFewestToCompact) Compact();
}

void Slice::Compact() {
  std::vector<std::uint64_t> kept;
  kept.reserve(live_ + 1);
  for (std::uint64_t word = 0; word < bits_.size(); ++word) {
    for (std::uint64_t rest = bits_[word]; rest != 0; rest &= rest - 1) {
      kept.push_back(word * 64 + static_cast<std::uint64_t>(std::countr_zero(rest)));
    }
  }
  // An empty ids_ means that no list exists. Keep one dead id, so that it is not empty.
  if (kept.empty()) kept.push_back(next_ - 1);
  ids_ = std::move(kept);
}

std::uint64_t Slice::Pick(Chooser* chooser, Random* random) {
  while (true) {
    const std::uint64_t slot = chooser->Next(random, Slots());
    const std::uint64_t id = ids_.empty() ? slot : ids_[slot];
    if (IsLive(id)) return id;
  }
}

void Slice::DeleteRange(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t position = first; position <= last; ++position) {
    const std::uint64_t id = LiveAt(position);
    if (id != kAbsent) Delete(id);
  }
}

std::uint64_t Slice::RangeEnd(std::uint64_t first, std::uint64_t keys) const {
  // Keys in order fill the first positions only.
  const std::uint64_t used = sequential_ ? 2 * next_ : positions_;
  const double span = static_cast<double>(keys) * static_cast<double>(used) /
                      static_cast<double>(std::max<std::uint64_t>(live_, 1));
  const auto left = static_cast<double>(positions_ - 1 - first);
  return first + static_cast<std::uint64_t>(std::clamp(span - 1, 0.0, left));
}

void Slice::Write(std::uint64_t position, std::string* key) const {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), base_ + position).ptr;
  const auto length = static_cast<std::size_t>(end - digits);
  key->assign(key_size_ - length, '0');
  key->append(digits, length);
}

std::uint64_t Slice::Read(std::string_view key) const {
  std::uint64_t number = 0;
  const auto error = std::from_chars(key.data(), key.data() + key.size(), number).ec;
  // Numbers that are too large, and texts that sort after all digits, give the last position. Other
  // texts that are not numbers give the first.
  const bool behind = error == std::errc::result_out_of_range ||
                      (!key.empty() && static_cast<unsigned char>(key[0]) > '9');
  if (behind) number = ~std::uint64_t{0};
  return std::clamp(number, base_, base_ + positions_ - 1) - base_;
}

}  // namespace kvmix
