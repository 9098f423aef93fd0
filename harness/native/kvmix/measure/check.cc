#include "kvmix/measure/check.h"

namespace kvmix {

void Checker::Check(const Operation& operation, const Outcome& outcome, Source* source) {
  std::string fault;
  switch (operation.kind) {
    case Kind::kQuery:
    case Kind::kAbsentQuery:
      fault = Point(operation, outcome, source);
      break;
    case Kind::kScan:
      if (!thorough_) return;
      fault = Range(operation, outcome, source);
      break;
    default:
      return;
  }
  ++checked_;
  if (fault.empty()) return;
  if (wrong_++ == 0) first_ = std::move(fault);
}

std::string Checker::Point(const Operation& operation, const Outcome& outcome,
                           Source* source) const {
  const std::string key(operation.key);
  const bool must_exist = operation.kind == Kind::kQuery;
  if (outcome.found != must_exist) {
    return "key " + key + (must_exist ? " is missing" : " exists but should not");
  }
  if (!must_exist || !thorough_) return "";
  const auto expected = source->Expected(operation.key);
  return expected && *expected == outcome.value ? "" : "key " + key + " has another value";
}

std::string Checker::Range(const Operation& operation, const Outcome& outcome, Source* source) {
  std::string fault;
  std::size_t at = 0;
  source->ExpectedRange(operation.key, operation.last, [&](auto key, auto value) {
    if (at == outcome.scanned.size() || outcome.scanned[at].first > key) {
      fault = "key " + std::string(key) + " is missing from a range";
    } else if (outcome.scanned[at].first < key) {
      fault = "key " + outcome.scanned[at].first + " is in a range but should not exist";
    } else if (outcome.scanned[at].second != value) {
      fault = "key " + std::string(key) + " has another value in a range";
    }
    ++at;
    return fault.empty();
  });
  if (fault.empty() && at < outcome.scanned.size()) {
    fault = "key " + outcome.scanned[at].first + " is in a range but should not exist";
  }
  return fault;
}

}  // namespace kvmix
