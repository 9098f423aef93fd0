// The unwritten end of a WAL, saved in a file of the auxiliary directory. So an acknowledged write
// survives the end of the process, and costs no block of the device. Like a page cache, saved tails
// do not survive a restart of the system: tails of an earlier boot do not count.
//
// A file is a chain of sealed blocks (format/sealed.h) of any size. The first one has the position
// of the tail in the WAL. A tail with another start overwrites the one before.
//
// Where the file system allows it, the file is mapped into memory: a save is then a copy, without a
// system call. A kill in the middle of a copy leaves a block with a wrong checksum.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "zlfs/zoned/errors.h"

namespace zlfs {

// Not thread-safe; the tail_mutex of the WAL guards it.
class SavedTail {
 public:
  // Bytes of the file that can be mapped. Small appends make a chain larger than its tail.
  static constexpr std::size_t kMapped = 2 << 20;

  ~SavedTail();
  SavedTail(const SavedTail&) = delete;
  SavedTail& operator=(const SavedTail&) = delete;

  // Saves the bytes of the WAL from `start` on: `tail` holds all of them. Writes only those that
  // are not saved yet. After an error the caller writes the tail to the device.
  IOStatus Save(std::uint64_t start, std::string_view tail);
  // Removes the file. Call this when the content is on the device.
  void Remove();

 private:
  friend class SavedTails;
  SavedTail(std::string path, int fd, std::uint64_t file, std::uint64_t key);
  IOStatus Write(std::string_view block) const;

  const std::string path_;
  const int fd_;
  char* const map_;  // start of the file; null: not mapped
  const std::uint64_t file_;
  const std::uint64_t key_;
  std::uint64_t start_ = 0;     // position of the tail in the WAL
  std::uint64_t saved_ = 0;     // bytes of the tail
  std::uint64_t at_ = 0;        // end of the chain in the file
  std::uint64_t previous_ = 0;  // checksum of the last block's header
  std::string block_;           // buffer for a block beyond `map_`
};

// The kernel's id of this boot; empty if it is unknown.
std::string BootId();

// The saved tails of a volume.
class SavedTails {
 public:
  // From now on, saves in a folder below `folder`. Without this call nothing is saved. `boot`
  // differs after each start of the system.
  void Begin(const std::string& folder, const std::array<char, 16>& volume,
             const std::string& boot = BootId());

  // Returns null if the tail cannot be saved.
  std::unique_ptr<SavedTail> New(std::uint64_t file) const;
  // Returns the saved bytes of the WAL from position `from` on: none, if a kill lost nothing. After
  // an error, a tail that cannot be read now may exist.
  IOStatus Load(std::uint64_t file, std::uint64_t from, std::string* missing) const;
  // Removes the tails of all other WALs.
  void Keep(const std::set<std::uint64_t>& files) const;
  // Removes the volume's folder if it is empty.
  void End() const;

 private:
  std::string PathOf(std::uint64_t file) const;

  std::string folder_;     // empty: saves nothing
  std::uint64_t key_ = 0;  // differs for each volume and each boot
};

}  // namespace zlfs
