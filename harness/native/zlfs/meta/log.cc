#include "zlfs/meta/log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {
namespace {

IOStatus WritePart(ZoneIo* io, std::uint32_t zone, std::uint64_t at, const std::string& blocks,
                   std::size_t payload, std::uint64_t* written) {
  const AlignedBuffer aligned = AllocateAligned(blocks.size());
  blocks.copy(aligned.get(), blocks.size());
  return io->Write(Cause::kMetadata, zone, at, Slice(aligned.get(), blocks.size()), payload,
                   written);
}

}  // namespace

MetaLog::MetaLog(ZoneIo* io, std::mutex* state, Describe describe, Superblock superblock,
                 std::vector<std::uint32_t> zones, std::uint64_t last_frame,
                 std::uint64_t last_checksum, std::uint64_t capacity)
    : io_(io),
      state_(state),
      describe_(std::move(describe)),
      capacity_(std::min(capacity, kMaxLogBytes)),
      superblock_(std::move(superblock)),
      zones_(std::move(zones)),
      frame_(last_frame),
      previous_(last_checksum),
      generation_(superblock_.generation) {}

std::uint64_t MetaLog::Append(const Record& record) {
  AppendRecord(record, &pending_);
  return ++appended_;
}

IOStatus MetaLog::Commit(std::uint64_t position) {
  Mark written;
  RETURN_IF_ERROR(WriteRecords(position, &written));
  RETURN_IF_ERROR(io_->Flush());
  Flushed(written);
  return IOStatus::OK();
}

void MetaLog::Flushed(const Mark& mark) {
  const std::lock_guard lock(flushed_);
  flushed_frame_ = std::max(flushed_frame_.load(), mark.frame);
  durable_ = std::max(durable_.load(), mark.position);
}

IOStatus MetaLog::WriteRecords(std::uint64_t position, Mark* written) {
  const std::lock_guard write(write_);
  if (broken_.ok() && position > written_.position) {
    std::unique_lock lock(*state_);
    const std::string records = std::exchange(pending_, {});
    const std::uint64_t end = appended_;
    lock.unlock();
    if (!Fits(offset_, SealedSize(records.size(), superblock_.block_size))) {
      broken_ = RollOverLocked();  // the snapshot includes these records
    } else {
      const IOStatus status = WriteFrame(records);
      written_ = {.position = end, .frame = frame_};
      if (!status.ok()) broken_ = RollOverLocked();
    }
  }
  *written = written_;
  return broken_;
}

IOStatus MetaLog::RollOver(bool all_active) {
  const std::lock_guard write(write_);
  if (broken_.ok()) broken_ = RollOverLocked(all_active);
  return broken_;
}

// One copy of the current generation stays until a copy of the next one is durable. If all zones
// may be active, the other copy stays so long too, and the first one until both new ones are
// durable.
IOStatus MetaLog::RollOverLocked(bool all_active) {
  std::vector<Record> records;
  std::unique_lock lock(*state_);
  describe_(&records);
  pending_.clear();
  const std::uint64_t end = appended_;
  lock.unlock();
  const Old current{.generation = superblock_.generation, .previous = previous_};
  std::vector<Part> parts;
  RETURN_IF_ERROR(Encode(records, &parts));
  // The copy that stays is the first one, so it must not lie in an offline zone. After a failed
  // write, the copy in the other zone stays: the zone of the failed one may be about to be lost.
  std::ranges::stable_sort(zones_, {}, [this](std::uint32_t zone) {
    return std::pair(io_->Lost(zone), zone == failed_);
  });
  std::vector<std::uint32_t> zones = ZonesInTurn();
  std::vector<Old> old;
  for (std::size_t i = 0; i < zones_.size(); ++i) {
    if (i > 0 && !all_active && io_->Reset(zones_[i], true).ok()) continue;
    old.push_back(current);
    old.back().zone = zones_[i];
    std::erase(zones, zones_[i]);
    if (i > 0) zones.push_back(zones_[i]);  // as the last choice
  }
  // An old generation beside a single copy stays until the first new copy is durable.
  const auto is_empty = [this](std::uint32_t zone) {
    std::uint64_t at = 0;
    return io_->WritePointer(zone, &at).ok() && at == 0;
  };
  if (all_active) std::ranges::stable_partition(zones, is_empty);
  std::vector<std::uint32_t> copies;
  const IOStatus status = WriteCopy(parts, &zones, &copies, &old);
  if (!status.ok()) return IOStatus::IOError("no-metadata-zone", status.ToString());
  RETURN_IF_ERROR(io_->Flush());
  while (old.size() > (all_active && !zones_.empty() ? 1U : 0U)) {
    Discard(old.back());
    old.pop_back();
  }
  // If no second zone can be written, there is one copy. The zone of an old one is the last choice.
  zones = ZonesInTurn();
  std::erase(zones, copies.front());
  WriteCopy(parts, &zones, &copies, &old).PermitUncheckedError();
  RETURN_IF_ERROR(io_->Flush());
  bool marked = false;
  for (const Old& one : old) marked |= Discard(one);
  if (marked) RETURN_IF_ERROR(io_->Flush());
  zones_ = std::move(copies);
  failed_.reset();
  // Publish the generation only after the flush. To recovery, a WAL piece of a generation that it
  // does not find is corruption.
  generation_.store(superblock_.generation, std::memory_order_release);
  written_ = {.position = end, .frame = frame_};
  Flushed(written_);
  return IOStatus::OK();
}

std::vector<std::uint32_t> MetaLog::ZonesInTurn() const {
  std::vector<std::uint32_t> zones;
  const std::uint32_t last = zones_.empty() ? kMetadataZones - 1 : zones_.front();
  for (std::uint32_t i = 1; i <= kMetadataZones; ++i) zones.push_back((last + i) % kMetadataZones);
  // A zone that failed is the last choice.
  std::ranges::stable_partition(zones, [this](std::uint32_t zone) { return zone != failed_; });
  return zones;
}

IOStatus MetaLog::WriteCopy(const std::vector<Part>& parts, std::vector<std::uint32_t>* zones,
                            std::vector<std::uint32_t>* copies, std::vector<Old>* old) {
  IOStatus status = IOStatus::IOError("no zone is left");
  while (!status.ok() && !zones->empty()) {
    const std::uint32_t zone = zones->front();
    zones->erase(zones->begin());
    std::uint64_t landed = 0;
    status = WriteParts(parts, zone, &landed);
    if (landed > 0) std::erase_if(*old, [zone](const Old& one) { return one.zone == zone; });
    if (status.ok()) {
      copies->push_back(zone);
    } else if (!io_->Reset(zone, true).ok()) {
      // Another reset would free the zone's active slot. The last write can fail after all of it
      // was written. Such a copy is whole, but will not get the next frames.
      const bool whole = landed == offset_;
      old->push_back({zone, whole ? superblock_.generation : 0, previous_});
    }
  }
  return status;
}

IOStatus MetaLog::WriteParts(const std::vector<Part>& parts, std::uint32_t zone,
                             std::uint64_t* landed) {
  for (const Part& part : parts) {
    const std::uint64_t at = *landed;
    std::uint64_t written = 0;
    IOStatus status = WritePart(io_, zone, at, part.blocks, part.payload, &written);
    if (!status.ok() && at + written == 0) {
      // An earlier reset of the zone may have failed.
      RETURN_IF_ERROR(io_->Reset(zone, true));
      status = WritePart(io_, zone, at, part.blocks, part.payload, &written);
    }
    *landed += written;
    RETURN_IF_ERROR(status);
  }
  return IOStatus::OK();
}

bool MetaLog::Discard(const Old& old) {
  if (io_->Reset(old.zone, true).ok() || old.generation == 0) return false;
  const std::size_t size = SealedSize(0, superblock_.block_size);
  std::string mark(size, '\0');
  Seal({.magic = kFrameMagic,
        .subject = static_cast<std::uint64_t>(FrameKind::kSuperseded),
        .generation = old.generation,
        .number = frame_ + 1,  // higher than all numbers of the copy
        .previous = old.previous},
       mark.data(), size);
  std::uint64_t at = 0;
  std::uint64_t written = 0;
  return io_->WritePointer(old.zone, &at).ok() && at > 0 &&
         WritePart(io_, old.zone, at, mark, 0, &written).ok();
}

IOStatus MetaLog::Encode(const std::vector<Record>& records, std::vector<Part>* parts) {
  ++superblock_.generation;
  superblock_.version = kFormatVersion;
  std::string superblock = EncodeSuperblock(superblock_);
  std::memcpy(&previous_, superblock.data() + kSuperblockChecksumOffset, sizeof(previous_));
  offset_ = superblock.size();
  parts->push_back({.blocks = std::move(superblock), .payload = offset_});
  std::string body;
  for (std::size_t i = 0; i < records.size(); ++i) {
    AppendRecord(records[i], &body);
    const bool last = i + 1 == records.size();
    if (body.size() < kFrameContent && !last) continue;
    parts->push_back(EncodeFrame(last ? FrameKind::kSnapshotEnd : FrameKind::kSnapshot, body));
    offset_ += parts->back().blocks.size();
    body.clear();
  }
  if (Fits(0, offset_)) return IOStatus::OK();
  return IOStatus::NoSpace("metadata-full", "the name space does not fit into one zone");
}

MetaLog::Part MetaLog::EncodeFrame(FrameKind kind, const std::string& records) {
  std::string frame(SealedSize(records.size(), superblock_.block_size), '\0');
  records.copy(frame.data() + kHeaderSize, records.size());
  const SealedHeader header{.magic = kFrameMagic,
                            .size = static_cast<std::uint32_t>(records.size()),
                            .subject = static_cast<std::uint64_t>(kind),
                            .position = flushed_frame_,
                            .generation = superblock_.generation,
                            .number = ++frame_,
                            .previous = previous_};
  previous_ = Seal(header, frame.data(), frame.size());
  return {.blocks = std::move(frame), .payload = records.size()};
}

IOStatus MetaLog::WriteFrame(const std::string& records) {
  const Part frame = EncodeFrame(FrameKind::kRecords, records);
  IOStatus result;
  for (const std::uint32_t zone : zones_) {
    std::uint64_t written = 0;
    IOStatus status = WritePart(io_, zone, offset_, frame.blocks, frame.payload, &written);
    if (status.ok()) continue;
    failed_ = zone;
    result = std::move(status);
  }
  offset_ += frame.blocks.size();
  return result;
}

bool MetaLog::Fits(std::uint64_t offset, std::uint64_t size) const {
  return offset + size + SealedSize(0, superblock_.block_size) <= capacity_;
}

}  // namespace zlfs
