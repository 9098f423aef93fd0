// Events in virtual time. Events with equal times are taken in the order in which they were added.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/units.h"

namespace zonemodel {

enum class EventKind : std::uint32_t { kDone, kPageRead, kDie, kReset, kTimer };

constexpr std::uint32_t kMostDies = 1U << 12;
constexpr std::uint32_t kMostTags = 1U << 16;  // a tag names a command under way

struct Event {
  Time time;
  std::uint32_t order;
  std::uint32_t packed;  // kind, die, tag

  [[nodiscard]] EventKind kind() const { return EventKind{packed >> 28}; }
  [[nodiscard]] std::uint32_t die() const { return (packed >> 16) & (kMostDies - 1); }
  [[nodiscard]] std::uint32_t tag() const { return packed & (kMostTags - 1); }
};

// A heap in which each node has four children. Taking the first event leaves a hole at the root.
// Most events add one further event, which then fills the hole.
class EventQueue {
 public:
  void Add(Time time, EventKind kind, std::uint32_t die, std::uint32_t tag) {
    const std::uint32_t packed = (static_cast<std::uint32_t>(kind) << 28) | (die << 16) | tag;
    const Event event{time, order_++, packed};
    if (hole_) {
      hole_ = false;
      SiftDown(event);
      return;
    }
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!Before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  bool empty() {
    Close();
    return heap_.empty();
  }

  // Returns the first event without taking it. The queue must not be empty.
  const Event& first() {
    Close();
    return heap_.front();
  }

  // Takes the first event. The queue must not be empty.
  Event Take() {
    Close();
    hole_ = true;
    ++taken_;
    return heap_.front();
  }

  // Calls `visit` with each event, in no particular order.
  template <class Visit>
  void Each(const Visit& visit) {
    Close();
    for (const Event& event : heap_) visit(event);
  }

  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  static constexpr std::size_t kChildren = 4;

  static bool Before(const Event& left, const Event& right) {
    return left.time != right.time ? left.time < right.time : left.order < right.order;
  }

  void Close() {
    if (!hole_) return;
    hole_ = false;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) SiftDown(last);
  }

  // Puts `event` into the hole at the root.
  void SiftDown(const Event& event) {
    const std::size_t size = heap_.size();
    std::size_t at = 0;
    for (std::size_t child = 1; child < size; child = kChildren * at + 1) {
      std::size_t least = child;
      const std::size_t end = child + kChildren < size ? child + kChildren : size;
      for (std::size_t i = child + 1; i < end; ++i) {
        if (Before(heap_[i], heap_[least])) least = i;
      }
      if (!Before(heap_[least], event)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = event;
  }

  std::vector<Event> heap_;
  std::uint32_t order_ = 0;
  std::uint64_t taken_ = 0;
  bool hole_ = false;
};

}  // namespace zonemodel
