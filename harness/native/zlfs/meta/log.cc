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
    if (offset_ + SealedSize(records.size(), superblock_.block_size) > capacity_) {
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
  const std::uint32_t old = zone_;
  IOStatus status;
  for (std::uint32_t next = 1; next < kMetadataZones; ++next) {
    status = WriteGeneration((old + next) % kMetadataZones, records);
    if (status.ok() || status.IsNoSpace()) break;
    io_->Reset(zone_, true).PermitUncheckedError();  // frees its active slot
  }
  if (status.IsNoSpace()) return status;
  if (!status.ok()) return IOStatus::IOError("no-metadata-zone", status.ToString());
  RETURN_IF_ERROR(io_->Flush());
  // Publish the generation only after the flush. Recovery treats a WAL piece of a generation that
  // it does not find as corruption.
  generation_.store(superblock_.generation, std::memory_order_release);
  // An old generation does no harm. The zone is reset again before its next turn.
  io_->Reset(old, true).PermitUncheckedError();
  written_ = {.position = end, .frame = frame_};
  Flushed(written_);
  return IOStatus::OK();
}

IOStatus MetaLog::WriteGeneration(std::uint32_t zone, const std::vector<Record>& records) {
  zone_ = zone;
  offset_ = 0;
  ++superblock_.generation;
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
  previous_ = Seal(header, frame.data(), frame.size());
  return WriteBlocks(frame, records.size());
}

IOStatus MetaLog::WriteBlocks(const std::string& blocks, std::size_t payload) {
  if (offset_ + blocks.size() > capacity_) {
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
