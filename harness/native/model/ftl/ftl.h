// A page-mapped translation layer with garbage collection. It has no times: it returns the program
// units and the erases that writes cause.
//
// A superblock has one block of each die. Data goes to an open superblock, unit by unit across the
// dies. When few superblocks are free, each page that the host writes collects a part of the
// victim. So the victim is empty when its space is needed.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "model/parameters.h"

namespace zonemodel {

class Ftl {
 public:
  // A program unit that became whole.
  struct Unit {
    std::uint32_t number;
    std::uint32_t die;
    std::uint32_t moved;  // pages that garbage collection moved
    std::uint32_t reads;  // flash pages that were read for these pages
  };
  struct Work {
    std::vector<Unit> units;
    std::vector<std::uint32_t> erased;  // superblocks
    std::uint32_t moved = 0;            // pages
  };

  Ftl(const FtlParameters& parameters, const FlashParameters& flash);

  // Writes a page of the host. Adds the work for the dies to `work`.
  void Write(std::uint32_t page, Work* work);
  void Trim(std::uint32_t page);
  struct Place {
    std::uint32_t unit;
    std::uint32_t die;
    std::uint32_t flash_page;
  };
  // Returns whether a whole unit holds the page, and its place. Returns false for pages that were
  // never written or are still in the write buffer.
  bool Find(std::uint32_t page, Place* place) const;

  [[nodiscard]] std::uint32_t pages() const { return static_cast<std::uint32_t>(map_.size()); }
  [[nodiscard]] Bytes page_bytes() const { return page_bytes_; }
  [[nodiscard]] std::uint32_t dies() const { return dies_; }
  [[nodiscard]] std::size_t units() const { return reverse_.size() / unit_pages_; }
  [[nodiscard]] std::uint32_t superblocks() const {
    return static_cast<std::uint32_t>(blocks_.size());
  }
  [[nodiscard]] std::uint32_t erases(std::uint32_t superblock) const {
    return blocks_[superblock].erases;
  }
  // Returns the bytes of units that are not whole. They are in the write buffer.
  [[nodiscard]] Bytes PartialBytes() const {
    return (host_.next % unit_pages_ + moved_.next % unit_pages_) * page_bytes_;
  }
  void ForgetErases() {
    for (Superblock& block : blocks_) block.erases = 0;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Superblock {
    std::uint32_t valid = 0;
    std::uint32_t erases = 0;
    std::uint64_t closed = 0;  // number in the order of closing; 0: free, open or being collected
  };
  struct Stream {
    std::uint32_t block = kNone;  // the open superblock
    std::uint32_t next = 0;       // next page in it
    std::uint32_t moved = 0;      // moved pages of the current unit
    std::uint32_t reads = 0;      // flash pages that were read for them
  };

  void Append(std::uint32_t page, Stream* stream, bool moved, std::uint32_t reads, Work* work);
  void Invalidate(std::uint32_t page);
  void CollectFor(Work* work);  // the share of one page of the host
  void Scan(Work* work);        // one page of the victim
  bool ChooseVictim();
  [[nodiscard]] std::uint32_t DieOf(std::uint32_t physical) const {
    return physical % block_pages_ / unit_pages_ % dies_;
  }

  const FtlParameters parameters_;
  const Bytes page_bytes_;
  const std::uint32_t dies_;
  const std::uint32_t unit_pages_;
  const std::uint32_t block_pages_;
  const std::uint32_t read_pages_;      // pages that one read of flash returns
  std::vector<std::uint32_t> map_;      // logical to physical page
  std::vector<std::uint32_t> reverse_;  // physical to logical page
  std::vector<Superblock> blocks_;
  std::deque<std::uint32_t> free_;
  std::deque<std::uint32_t> closed_;  // in order of closing, for FIFO
  std::uint64_t closings_ = 0;
  Stream host_;
  Stream moved_;
  std::uint32_t victim_ = kNone;
  std::uint32_t cursor_ = 0;         // next page of the victim
  std::uint32_t last_read_ = kNone;  // flash page that was read last
  // Pages that are due for a scan, times gain_. Each page of the host adds block_pages_. Each scan
  // subtracts gain_.
  std::uint64_t owed_ = 0;
  std::uint32_t gain_ = 1;  // invalid pages of the victim when it was chosen
};

}  // namespace zonemodel
