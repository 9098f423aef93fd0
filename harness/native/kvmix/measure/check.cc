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
  const bool there = operation.kind == Kind::kQuery;
  if (outcome.found != there) {
    return "key " + key + (there ? " is missing" : " is there, and should not be");
  }
  if (!there || !thorough_) return "";
  const auto wanted = source->Expected(operation.key);
  return wanted && *wanted == outcome.value ? "" : "key " + key + " has another value";
}

std::string Checker::Range(const Operation& operation, const Outcome& outcome, Source* source) {
  std::string fault;
  std::size_t at = 0;
  source->ExpectedRange(operation.key, operation.last, [&](auto key, auto value) {
    if (at == outcome.scanned.size() || outcome.scanned[at].first > key) {
      fault = "key " + std::string(key) + " is missing in a range";
    } else if (outcome.scanned[at].first < key) {
      fault = "key " + outcome.scanned[at].first + " is in a range, and should not be";
    } else if (outcome.scanned[at].second != value) {
      fault = "key " + std::string(key) + " has another value in a range";
    }
    ++at;
    return fault.empty();
  });
  if (fault.empty() && at < outcome.scanned.size()) {
    fault = "key " + outcome.scanned[at].first + " is in a range, and should not be";
  }
  return fault;
}

}  // namespace kvmix
