// Records the calls of an allocator, so that they can be replayed with other settings.

#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "zlfs/format/event.h"
#include "zlfs/format/sealed.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

// The caller serialises the calls. It uses the lock that guards the allocator, so that the trace
// has the order of the decisions. A write error does not reach the caller: the trace then lacks its
// last event, and readers refuse it.
class AllocationTrace {
 public:
  // Starts recording: appends to the file. Before this call, Add and End do nothing.
  IOStatus Open(const std::string& path);
  bool on() const { return file_.is_open(); }
  void Add(const Event& event);
  void Add(Step step, std::uint64_t subject, std::uint64_t detail = 0) {
    Add(StepEvent{static_cast<std::uint32_t>(step), subject, detail});
  }
  // `ledger` is the ledger's last line.
  void End(const std::string& ledger);

 private:
  void WriteChunk();

  std::ofstream file_;
  std::string chunk_ = std::string(kHeaderSize, '\0');
  std::uint64_t number_ = 0;
  std::uint64_t previous_ = 0;
};

}  // namespace zlfs
