#include "kvmix/source/mix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace kvmix {
namespace {

using Weights = std::array<double, kKinds>;

bool NeedsLiveKey(Kind kind) { return kind != Kind::kInsert && kind != Kind::kAbsentQuery; }

// Draws every operation independently, with constant probabilities.
class Stationary : public KindChooser {
 public:
  explicit Stationary(const Weights& weights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double sum = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      sum += weights[kind];
      limits_[kind] = sum / total;
      if (weights[kind] > 0) last_ = kind;
    }
  }

  // Inserts a key if the operation needs a live key and none exists: a mix may start empty.
  std::optional<Kind> Next(Random* random, std::uint64_t live) override {
    const double share = random->Share();
    std::size_t kind = 0;
    while (kind < last_ && share >= limits_[kind]) ++kind;
    if (live > 0 || !NeedsLiveKey(static_cast<Kind>(kind))) return static_cast<Kind>(kind);
    return limits_[Index(Kind::kInsert)] > 0 ? std::optional(Kind::kInsert) : std::nullopt;
  }

 private:
  Weights limits_{};
  std::size_t last_ = 0;  // last kind with a weight; guards against rounding
};

// The order of the public K-V-Workload-Generator, which is not stationary. The number of operations
// of each kind is fixed. The next kind is drawn in proportion to the remaining operations. A kind
// that is not allowed yet is replaced by its predecessor in the order I, U, D, R, Q, S. Updates and
// deletes need a tenth of the inserts to be done, queries four tenths.
class Gated : public KindChooser {
 public:
  explicit Gated(const Weights& weights, std::uint64_t operations) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double sum = 0;
    std::uint64_t given = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {  // rounding the sums keeps the total exact
      sum += weights[kind];
      const auto upto =
          static_cast<std::uint64_t>(std::llround(sum / total * static_cast<double>(operations)));
      left_[kind] = upto - given;
      given = upto;
    }
    inserts_ = left_[Index(Kind::kInsert)];
  }

  std::optional<Kind> Next(Random* random, std::uint64_t live) override {
    const std::uint64_t total = std::accumulate(left_.begin(), left_.end(), std::uint64_t{0});
    if (total == 0) return std::nullopt;
    std::uint64_t draw = random->Below(total);
    std::size_t kind = 0;
    while (draw >= left_[kind]) draw -= left_[kind++];
    // Search down to the inserts, then wrap around to the last kind.
    for (std::size_t step = 0; step < kKinds; ++step) {
      const std::size_t candidate = (kind + kKinds - step) % kKinds;
      if (!May(static_cast<Kind>(candidate), live)) continue;
      --left_[candidate];
      return static_cast<Kind>(candidate);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool May(Kind kind, std::uint64_t live) const {
    if (left_[Index(kind)] == 0) return false;
    if (kind == Kind::kInsert) return true;
    if (live == 0 && NeedsLiveKey(kind)) return false;
    if ((kind == Kind::kDelete || kind == Kind::kRangeDelete) && live == 1 && Wanted())
      return false;
    const bool writes = Index(kind) < Index(Kind::kQuery);
    const std::uint64_t done = inserts_ - left_[Index(Kind::kInsert)];
    return 10 * done >= (writes ? 1 : 4) * inserts_;
  }

  // Whether the remaining operations need the last live key.
  [[nodiscard]] bool Wanted() const {
    return left_[Index(Kind::kInsert)] == 0 &&
           left_[Index(Kind::kUpdate)] + left_[Index(Kind::kQuery)] + left_[Index(Kind::kScan)] > 0;
  }

  std::array<std::uint64_t, kKinds> left_{};
  std::uint64_t inserts_ = 0;
};

std::unique_ptr<KindChooser> MakeChooser(const MixOptions& options, unsigned thread) {
  if (!options.gated) return std::make_unique<Stationary>(options.weights);
  return std::make_unique<Gated>(options.weights, OperationsOf(options, thread));
}

}  // namespace

std::optional<std::string> Fault(const MixOptions& options) {
  const KeyOptions& keys = options.keys;
  const double total = std::accumulate(options.weights.begin(), options.weights.end(), 0.0);
  if (std::any_of(options.weights.begin(), options.weights.end(), [](double w) { return w < 0; }) ||
      total <= 0 || !std::isfinite(total)) {
    return "weights must not be negative, and at least one must be positive";
  }
  if (!(options.theta > 0 && options.theta < 1)) return "theta must lie between 0 and 1";
  if (options.value_size < 1) return "value_size must be at least 1";
  if (options.range_keys < 1) return "range_keys must be at least 1";
  if (keys.slices < 1) return "threads must be at least 1";
  if (keys.existing > keys.key_space) return "key_space must be at least as large as existing";
  if (options.gated && options.operations == 0) return "gated mixes need --operations";
  const unsigned bits = PositionBits(keys);
  const double numbers = std::ldexp(static_cast<double>(keys.slices), static_cast<int>(bits));
  if (numbers > 0x1p63) return "the key space is too large";
  const std::size_t digits = std::to_string(static_cast<std::uint64_t>(numbers) - 1).size();
  if (digits > keys.key_size) {
    return "key_size must be at least " + std::to_string(digits) + " for this key space";
  }
  return std::nullopt;
}

std::uint64_t OperationsOf(const MixOptions& options, unsigned thread) {
  const std::uint64_t threads = options.keys.slices;
  return options.operations / threads + (thread < options.operations % threads ? 1 : 0);
}

MixSource::MixSource(const MixOptions& options, unsigned thread)
    : options_(options),
      thread_(thread),
      slice_(options.keys, thread),
      random_(options.seed, kOperations + kStreams * thread),
      chooser_(options.distribution, options.theta),
      kinds_(MakeChooser(options, thread)),
      values_(options.value_size, options.compression_ratio),
      expected_(options.value_size, options.compression_ratio),
      left_(options.operations == 0 ? ~std::uint64_t{0} : OperationsOf(options, thread)) {
  if (options.remember) tags_.resize(slice_.Live());
}

MixSource::~MixSource() = default;

bool MixSource::Next(Operation* operation) {
  if (left_ == 0) return false;
  const std::optional<Kind> kind = kinds_->Next(&random_, slice_.Live());
  if (!kind) {
    problem_ = "no key is left for the remaining operations";
    return false;
  }
  --left_;
  ++done_;
  operation->kind = *kind;
  operation->last = operation->value = {};
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  switch (*kind) {
    case Kind::kInsert:
      return Insert(operation);
    case Kind::kUpdate: {
      const std::uint64_t id = slice_.Pick(&chooser_, &random_);
      const std::uint64_t tag = Mix64(options_.seed ^ Mix64(thread_) ^ Mix64(done_ << 1)) | 1;
      if (options_.remember) tags_[id] = tag;
      Key(slice_.Position(id));
      operation->value = values_.Make(tag);
      break;
    }
    case Kind::kDelete: {  // uniform, like the public generator
      const std::uint64_t id = slice_.Pick(&any_, &random_);
      slice_.Delete(id);
      Key(slice_.Position(id));
      break;
    }
    case Kind::kRangeDelete:
      Range(operation, &first, &last);
      slice_.DeleteRange(first, last);
      break;
    case Kind::kQuery:
      Key(slice_.Position(slice_.Pick(&chooser_, &random_)));
      break;
    case Kind::kAbsentQuery:
      Key(slice_.AbsentPosition(random_.Below(slice_.Capacity())));
      break;
    case Kind::kScan:
      Range(operation, &first, &last);
      break;
  }
  operation->key = key_;
  return true;
}

bool MixSource::Insert(Operation* operation) {
  if (slice_.Full()) {
    problem_ = "a thread has inserted all " + std::to_string(slice_.Capacity()) +
               " keys of its part of the key space";
    return false;
  }
  const std::uint64_t id = slice_.Insert();
  if (options_.remember) tags_.push_back(0);
  Key(slice_.Position(id));
  operation->key = key_;
  operation->value = values_.Make(InsertTag(id));
  return true;
}

void MixSource::Range(Operation* operation, std::uint64_t* first, std::uint64_t* last) {
  Chooser* const chooser = operation->kind == Kind::kRangeDelete ? &any_ : &chooser_;
  *first = slice_.Position(slice_.Pick(chooser, &random_));
  *last = slice_.RangeEnd(*first, options_.range_keys);
  Key(*first);
  slice_.Write(*last, &last_);
  operation->last = last_;
}

void MixSource::Key(std::uint64_t position) { slice_.Write(position, &key_); }

std::uint64_t MixSource::InsertTag(std::uint64_t id) const {
  return Mix64(options_.keys.key_seed ^ Mix64(thread_) ^ Mix64(id << 1)) & ~std::uint64_t{1};
}

std::uint64_t MixSource::Tag(std::uint64_t id) const {
  return tags_[id] != 0 ? tags_[id] : InsertTag(id);
}

std::optional<std::string_view> MixSource::Expected(std::string_view key) {
  const std::uint64_t id = slice_.LiveAt(slice_.Read(key));
  if (id == Slice::kAbsent) return std::nullopt;
  return expected_.Make(Tag(id));
}

void MixSource::ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) {
  const std::uint64_t end = slice_.Read(last);
  for (std::uint64_t position = slice_.Read(first); position <= end; ++position) {
    const std::uint64_t id = slice_.LiveAt(position);
    if (id == Slice::kAbsent) continue;
    slice_.Write(position, &scratch_);
    if (!entry(scratch_, expected_.Make(Tag(id)))) return;
  }
}

}  // namespace kvmix
