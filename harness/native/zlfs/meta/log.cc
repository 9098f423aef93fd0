#include "zlfs/meta/log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {

MetaLog::MetaLog(ZoneIo* io, std::mutex* state, Describe describe, Superblock superblock,
                 std::uint32_t zone, std::uint64_t last_frame, std::uint64_t capacity)
    : io_(io),
      state_(state),
      describe_(std::move(describe)),
      capacity_(std::min(capacity, kMaxLogBytes)),
      superblock_(std::move(superblock)),
      zone_(zone),
      frame_(last_frame),
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
    if (!Fits(SealedSize(records.size(), superblock_.block_size))) {
      broken_ = RollOverLocked();  // the snapshot includes these records
    } else {
      const IOStatus status = WriteFrame(FrameKind::kRecords, records);
      written_ = {.position = end, .frame = frame_};
      if (!status.ok()) broken_ = RollOverLocked();
    }
  }
  *written = written_;
  return broken_;
}

IOStatus MetaLog::RollOver() {
  const std::lock_guard write(write_);
  if (broken_.ok()) broken_ = RollOverLocked();
  return broken_;
}

IOStatus MetaLog::RollOverLocked() {
  std::vector<Record> records;
  std::unique_lock lock(*state_);
  describe_(&records);
  pending_.clear();
  const std::uint64_t end = appended_;
  lock.unlock();
  std::vector<Old> old = {{zone_, superblock_.generation, previous_}};
  IOStatus status;
  for (std::uint32_t next = 1; next < kMetadataZones; ++next) {
    status = WriteGeneration((old.front().zone + next) % kMetadataZones, records);
    if (status.ok() || status.IsNoSpace()) break;
    // The reset frees the zone's active slot. The zone is marked only when a newer generation is
    // there: until then it may be the newest.
    if (!io_->Reset(zone_, true).ok()) old.push_back({zone_, superblock_.generation, previous_});
  }
  if (status.IsNoSpace()) return status;
  if (!status.ok()) return IOStatus::IOError("no-metadata-zone", status.ToString());
  RETURN_IF_ERROR(io_->Flush());
  // Publish the generation only after the flush. Recovery treats a WAL piece of a generation that
  // it does not find as corruption.
  generation_.store(superblock_.generation, std::memory_order_release);
  bool reset = true;
  for (const Old& one : old) reset = Discard(one) && reset;
  if (!reset) RETURN_IF_ERROR(io_->Flush());  // the marks
  written_ = {.position = end, .frame = frame_};
  Flushed(written_);
  return IOStatus::OK();
}

bool MetaLog::Discard(const Old& old) {
  if (io_->Reset(old.zone, true).ok()) return true;
  const std::size_t size = SealedSize(0, superblock_.block_size);
  const AlignedBuffer frame = AllocateAligned(size);
  Seal({.magic = kFrameMagic,
        .subject = static_cast<std::uint64_t>(FrameKind::kSuperseded),
        .generation = old.generation,
        .number = frame_,  // of the newer generation, so it is higher than all of the old one
        .previous = old.previous},
       frame.get(), size);
  std::uint64_t at = 0;
  std::uint64_t written = 0;
  if (io_->WritePointer(old.zone, &at).ok() && at > 0) {
    io_->Write(Cause::kMetadata, old.zone, at, Slice(frame.get(), size), 0, &written)
        .PermitUncheckedError();
  }
  return false;
}

IOStatus MetaLog::WriteGeneration(std::uint32_t zone, const std::vector<Record>& records) {
  zone_ = zone;
  offset_ = 0;
  ++superblock_.generation;
  superblock_.version = kFormatVersion;
  const std::string superblock = EncodeSuperblock(superblock_);
  std::memcpy(&previous_, superblock.data() + kSuperblockChecksumOffset, sizeof(previous_));
  IOStatus status = WriteBlocks(superblock, superblock.size());
  if (!status.ok() && offset_ == 0) {
    // An earlier reset of the zone may have failed.
    RETURN_IF_ERROR(io_->Reset(zone, true));
    status = WriteBlocks(superblock, superblock.size());
  }
  RETURN_IF_ERROR(status);
  std::string body;
  for (std::size_t i = 0; i < records.size(); ++i) {
    AppendRecord(records[i], &body);
    const bool last = i + 1 == records.size();
    if (body.size() < kFrameContent && !last) continue;
    RETURN_IF_ERROR(WriteFrame(last ? FrameKind::kSnapshotEnd : FrameKind::kSnapshot, body));
    body.clear();
  }
  return IOStatus::OK();
}

IOStatus MetaLog::WriteFrame(FrameKind kind, const std::string& records) {
  std::string frame(SealedSize(records.size(), superblock_.block_size), '\0');
  records.copy(frame.data() + kHeaderSize, records.size());
  const SealedHeader header{.magic = kFrameMagic,
                            .size = static_cast<std::uint32_t>(records.size()),
                            .subject = static_cast<std::uint64_t>(kind),
                            .position = flushed_frame_,
                            .generation = superblock_.generation,
                            .number = ++frame_,
                            .previous = previous_};
  const std::uint64_t checksum = Seal(header, frame.data(), frame.size());
  RETURN_IF_ERROR(WriteBlocks(frame, records.size()));
  previous_ = checksum;
  return IOStatus::OK();
}

bool MetaLog::Fits(std::uint64_t size) const {
  return offset_ + size + SealedSize(0, superblock_.block_size) <= capacity_;
}

IOStatus MetaLog::WriteBlocks(const std::string& blocks, std::size_t payload) {
  if (!Fits(blocks.size())) {
    return IOStatus::NoSpace("metadata-full", "the name space does not fit into one zone");
  }
  const AlignedBuffer aligned = AllocateAligned(blocks.size());
  blocks.copy(aligned.get(), blocks.size());
  const Slice buffer(aligned.get(), blocks.size());
  std::uint64_t written = 0;
  IOStatus status = io_->Write(Cause::kMetadata, zone_, offset_, buffer, payload, &written);
  offset_ += written;  // after a partial write, the caller marks the log as broken
  return status;
}

}  // namespace zlfs
