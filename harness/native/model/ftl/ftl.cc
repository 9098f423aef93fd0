#include "model/ftl/ftl.h"

#include <algorithm>
#include <stdexcept>

namespace zonemodel {

Ftl::Ftl(const FtlParameters& parameters, const FlashParameters& flash)
    : parameters_(parameters),
      page_bytes_(parameters.map_unit),
      dies_(parameters.dies),
      unit_pages_(static_cast<std::uint32_t>(flash.program_unit / parameters.map_unit)),
      block_pages_(static_cast<std::uint32_t>(parameters.block_pages(flash))),
      read_pages_(static_cast<std::uint32_t>(flash.page / parameters.map_unit)),
      map_(parameters.pages(), kNone),
      blocks_(parameters.blocks(flash) + parameters.reserve) {
  reverse_.assign(blocks_.size() * block_pages_, kNone);
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) free_.push_back(block);
}

bool Ftl::Find(std::uint32_t page, Place* place) const {
  const std::uint32_t physical = map_[page];
  if (physical == kNone) return false;
  for (const Stream* stream : {&host_, &moved_}) {
    const std::uint32_t unit = stream->next - stream->next % unit_pages_;
    if (stream->block == physical / block_pages_ && physical % block_pages_ >= unit) return false;
  }
  *place = {
      .unit = physical / unit_pages_, .die = DieOf(physical), .flash_page = physical / read_pages_};
  return true;
}

void Ftl::Write(std::uint32_t page, Work* work) {
  CollectFor(work);
  Invalidate(page);
  Append(page, &host_, false, 0, work);
}

void Ftl::Trim(std::uint32_t page) {
  Invalidate(page);
  map_[page] = kNone;
}

void Ftl::Invalidate(std::uint32_t page) {
  const std::uint32_t physical = map_[page];
  if (physical == kNone) return;
  reverse_[physical] = kNone;
  --blocks_[physical / block_pages_].valid;
}

void Ftl::Append(std::uint32_t page, Stream* stream, bool moved, std::uint32_t reads, Work* work) {
  if (stream->block == kNone) {
    // With a reserve of three superblocks, both streams have space while a victim is collected.
    if (free_.empty()) throw std::logic_error("no superblock is free");
    stream->block = free_.front();
    stream->next = 0;
    free_.pop_front();
  }
  const std::uint32_t physical = stream->block * block_pages_ + stream->next;
  map_[page] = physical;
  reverse_[physical] = page;
  ++blocks_[stream->block].valid;
  if (moved) {
    ++stream->moved;
    ++work->moved;
    stream->reads += reads;
  }
  if (++stream->next % unit_pages_ != 0) return;
  work->units.push_back({.number = physical / unit_pages_,
                         .die = DieOf(physical),
                         .moved = stream->moved,
                         .reads = stream->reads});
  stream->moved = stream->reads = 0;
  if (stream->next < block_pages_) return;
  blocks_[stream->block].closed = ++closings_;
  if (parameters_.collection == Collection::kFifo) closed_.push_back(stream->block);
  stream->block = kNone;
}

void Ftl::CollectFor(Work* work) {
  if (victim_ == kNone && (free_.size() >= parameters_.reserve || !ChooseVictim())) return;
  // While the host writes as many pages as the victim has invalid ones, all pages of the victim are
  // scanned.
  owed_ += block_pages_;
  while (owed_ >= gain_ && victim_ != kNone) {
    owed_ -= gain_;
    Scan(work);
    // With FIFO a victim may have no invalid pages. It frees nothing, so the next victim follows at
    // once.
    if (victim_ == kNone && gain_ == 0 && ChooseVictim()) owed_ = block_pages_;
  }
}

void Ftl::Scan(Work* work) {
  const std::uint32_t physical = victim_ * block_pages_ + cursor_;
  const std::uint32_t page = reverse_[physical];
  if (page != kNone) {
    const std::uint32_t read = physical / read_pages_;
    const std::uint32_t reads = read != last_read_ ? 1 : 0;
    last_read_ = read;
    reverse_[physical] = kNone;
    --blocks_[victim_].valid;
    Append(page, parameters_.hot_cold_separation ? &moved_ : &host_, true, reads, work);
  }
  if (++cursor_ < block_pages_) return;
  ++blocks_[victim_].erases;
  work->erased.push_back(victim_);
  free_.push_back(victim_);
  victim_ = kNone;
}

bool Ftl::ChooseVictim() {
  if (parameters_.collection == Collection::kFifo) {
    if (closed_.empty()) return false;
    victim_ = closed_.front();
    closed_.pop_front();
  } else {
    std::uint32_t best = kNone;
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
      const Superblock& block = blocks_[i];
      if (block.closed == 0) continue;
      if (best == kNone || block.valid < blocks_[best].valid ||
          (block.valid == blocks_[best].valid && block.closed < blocks_[best].closed)) {
        best = i;
      }
    }
    if (best == kNone || blocks_[best].valid == block_pages_) return false;
    victim_ = best;
  }
  blocks_[victim_].closed = 0;
  cursor_ = 0;
  last_read_ = kNone;
  owed_ = 0;
  gain_ = block_pages_ - blocks_[victim_].valid;
  return true;
}

}  // namespace zonemodel
