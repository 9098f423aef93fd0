// The workload of one thread: a random mix of operations over the thread's slice of the keys.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvmix/source/keys.h"
#include "kvmix/source/operation.h"
#include "kvmix/source/values.h"

namespace kvmix {

struct MixOptions {
  KeyOptions keys;
  // Relative weights by kind. Point queries of present and absent keys have separate weights.
  std::array<double, kKinds> weights{};
  Distribution distribution = Distribution::kUniform;
  double theta = 0.99;  // YCSB's default
  std::size_t value_size = 100;
  double compression_ratio = 1.0;
  std::uint64_t range_keys = 100;  // live keys in a range, on average
  std::uint64_t seed = 0;
  std::uint64_t operations = 0;  // of all threads together; 0: no limit
  // Counts are exact, and kinds wait for a share of the inserts: see Gated in mix.cc.
  bool gated = false;
  bool remember = false;  // keep data for verification: 8 bytes per key ever inserted
};

// Describes the first fault in the options; nullopt if they are valid.
std::optional<std::string> Fault(const MixOptions& options);

// One thread's share of the operations.
std::uint64_t OperationsOf(const MixOptions& options, unsigned thread);

// Chooses the kind of the next operation.
class KindChooser {
 public:
  virtual ~KindChooser() = default;
  // Returns nullopt if no possible operation is left. `live` is the number of live keys.
  virtual std::optional<Kind> Next(Random* random, std::uint64_t live) = 0;
};

class MixSource : public Source {
 public:
  MixSource(const MixOptions& options, unsigned thread);
  ~MixSource() override;

  bool Next(Operation* operation) override;
  [[nodiscard]] const std::string& Problem() const override { return problem_; }
  std::optional<std::string_view> Expected(std::string_view key) override;
  void ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) override;

  [[nodiscard]] const Slice& keys() const { return slice_; }

 private:
  bool Insert(Operation* operation);
  void Range(Operation* operation, std::uint64_t* first, std::uint64_t* last);
  void Key(std::uint64_t position);
  // The tag of a live key's value: the tag of its last update, or InsertTag if there was none.
  [[nodiscard]] std::uint64_t Tag(std::uint64_t id) const;
  [[nodiscard]] std::uint64_t InsertTag(std::uint64_t id) const;

  MixOptions options_;
  unsigned thread_;
  Slice slice_;
  Random random_;
  Chooser chooser_;
  Chooser any_{Distribution::kUniform, 0.5};
  std::unique_ptr<KindChooser> kinds_;
  ValueMaker values_;
  ValueMaker expected_;
  std::uint64_t left_;  // remaining operations
  std::uint64_t done_ = 0;
  std::vector<std::uint64_t> tags_;  // update tags by id; 0: not updated. Empty unless `remember`.
  std::string key_;
  std::string last_;
  std::string scratch_;
  std::string problem_;
};

}  // namespace kvmix
