// Records what an allocator is asked and told, so that other settings can be tried on it.

#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "zlfs/format/event.h"
#include "zlfs/format/sealed.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

// The caller serialises the calls: with the lock under which the allocator is called, or the
// trace's order is not that of its decisions. A trace that cannot be written has no end, and is
// refused when it is read; whoever is recorded notices nothing.
class AllocationTrace {
 public:
  // Appends to the file. Until then nothing is recorded, and nothing happens below.
  IOStatus Open(const std::string& path);
  bool on() const { return file_.is_open(); }
  void Add(const Event& event);
  void Add(Step step, std::uint64_t subject, std::uint64_t detail = 0) {
    Add(StepEvent{static_cast<std::uint32_t>(step), subject, detail});
  }
  // With the ledger's last line.
  void End(const std::string& ledger);

 private:
  void WriteChunk();

  std::ofstream file_;
  std::string chunk_ = std::string(kHeaderSize, '\0');
  std::uint64_t number_ = 0;
  std::uint64_t previous_ = 0;
};

}  // namespace zlfs
