#include "zlfs/meta/log.h"

#include <algorithm>
#include <utility>

#include "zlfs/format/codec.h"

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
  const auto raise = [](std::atomic<std::uint64_t>* value, std::uint64_t to) {
    std::uint64_t now = value->load();
    while (now < to && !value->compare_exchange_weak(now, to)) {
    }
  };
  raise(&flushed_frame_, mark.frame);
  raise(&durable_, mark.position);
}

IOStatus MetaLog::WriteRecords(std::uint64_t position, Mark* written) {
  const std::lock_guard write(write_);
  if (broken_.ok() && position > written_.position) {
    std::string records;
    std::uint64_t end;
    {
      const std::lock_guard lock(*state_);
      records = std::exchange(pending_, {});
      end = appended_;
    }
    if (offset_ + SealedSize(records.size(), superblock_.block_size) > capacity_) {
      broken_ = RollOverLocked();  // the snapshot says what these records say
    } else {
      broken_ = WriteFrame(FrameKind::kRecords, records);
      written_ = {.position = end, .frame = frame_};
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
  std::uint64_t end;
  {
    const std::lock_guard lock(*state_);
    describe_(&records);
    pending_.clear();
    end = appended_;
  }
  const std::uint32_t old = zone_;
  zone_ = 1 - zone_;
  offset_ = 0;
  ++superblock_.generation;
  const std::string encoded = EncodeSuperblock(superblock_);
  const AlignedBuffer superblock = AllocateAligned(encoded.size());
  encoded.copy(superblock.get(), encoded.size());
  previous_ = LoadFixed<std::uint64_t>(encoded.data() + kSuperblockChecksumOffset);
  RETURN_IF_ERROR(WriteBlocks(superblock, encoded.size(), encoded.size()));
  std::string body;
  for (std::size_t i = 0; i < records.size(); ++i) {
    AppendRecord(records[i], &body);
    const bool last = i + 1 == records.size();
    if (body.size() < kFrameContent && !last) continue;
    RETURN_IF_ERROR(WriteFrame(last ? FrameKind::kSnapshotEnd : FrameKind::kSnapshot, body));
    body.clear();
  }
  RETURN_IF_ERROR(io_->Flush());
  // Only now: a WAL's piece of a generation that recovery does not find is taken for corruption.
  generation_.store(superblock_.generation, std::memory_order_release);
  RETURN_IF_ERROR(io_->Reset(old, true));
  written_ = {.position = end, .frame = frame_};
  Flushed(written_);
  return IOStatus::OK();
}

IOStatus MetaLog::WriteFrame(FrameKind kind, const std::string& records) {
  const std::size_t size = SealedSize(records.size(), superblock_.block_size);
  const AlignedBuffer frame = AllocateAligned(size);
  records.copy(frame.get() + kHeaderSize, records.size());
  const SealedHeader header{.magic = kFrameMagic,
                            .size = static_cast<std::uint32_t>(records.size()),
                            .subject = static_cast<std::uint64_t>(kind),
                            .position = flushed_frame_,
                            .generation = superblock_.generation,
                            .number = ++frame_,
                            .previous = previous_};
  previous_ = Seal(header, frame.get(), size);
  return WriteBlocks(frame, size, records.size());
}

IOStatus MetaLog::WriteBlocks(const AlignedBuffer& blocks, std::size_t size, std::size_t payload) {
  if (offset_ + size > capacity_) {
    return IOStatus::NoSpace("metadata-full", "the name space does not fit into one zone");
  }
  std::uint64_t written = 0;
  const Slice buffer(blocks.get(), size);
  IOStatus status = io_->Write(Cause::kMetadata, zone_, offset_, buffer, payload, &written);
  offset_ += written;  // short of all of it, nothing is written any more
  return status;
}

}  // namespace zlfs
