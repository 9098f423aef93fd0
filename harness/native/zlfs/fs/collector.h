// Moves live content out of zones that are mostly garbage, in bounded steps.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "zlfs/meta/namespace.h"
#include "zlfs/zoned/device.h"

namespace zlfs {

class Volume;

class Collector {
 public:
  explicit Collector(Volume* volume) : volume_(volume) {}

  // While space is low: moves as much as writing `written` bytes has to be paid with. Does nothing
  // when another thread is collecting.
  IOStatus Pay(std::uint64_t written);
  // Called by a writer that found no zone: frees at least one, or returns NoSpace.
  IOStatus MakeRoom();

 private:
  // Consecutive content of a file in the victim, and where it was copied.
  struct Run {
    std::shared_ptr<File> file;
    std::uint64_t begin = 0;  // in the file
    std::uint64_t end = 0;
    std::vector<Extent> to = {};
  };

  // All below: mutex_ is held.
  bool Choose();
  IOStatus Step(std::uint64_t bytes);
  IOStatus Copy(Run* run);
  IOStatus Move();
  void Abandon();

  Volume* const volume_;
  std::mutex mutex_;  // guards what follows
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;
  std::size_t next_ = 0;  // first run that was not copied
  AlignedBuffer buffer_;
};

}  // namespace zlfs
