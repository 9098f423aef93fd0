#include "zlfs/meta/recover.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "zlfs/format/sealed.h"

namespace zlfs {
namespace {

IOStatus Corrupt(const std::string& name, std::uint32_t zone, std::uint64_t offset,
                 const std::string& what) {
  return IOStatus::Corruption(
      name, "zone " + std::to_string(zone) + " offset " + std::to_string(offset) + ": " + what);
}

// A read that fails this many times does not fail because of a short disturbance.
constexpr int kReadAttempts = 3;

// More files than a process creates before it makes one of them durable.
constexpr std::uint64_t kUnseenFiles = 1 << 20;

// The device reports no write pointer for a zone in such a condition.
bool NoWritePointer(ZoneCondition condition) {
  return condition == ZoneCondition::kReadOnly || condition == ZoneCondition::kOffline;
}

// Blocks that were never written read as zeros or, on some NVMe drives, as ones (field DLFEAT).
bool IsUnwritten(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos ||
         bytes.find_first_not_of('\xff') == std::string_view::npos;
}

// Reads a zone of sealed blocks up to its write pointer, or to the capacity if there is none.
// Buffers a window of the zone.
class SealedZone {
 public:
  SealedZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info)
      : device_(device),
        zone_(zone),
        block_(device->geometry().block_size),
        blind_(NoWritePointer(info.condition)),
        limit_(blind_ ? info.capacity : info.write_pointer),
        finished_(blind_ || info.condition == ZoneCondition::kFull) {}

  // Returns the bytes [offset, offset + size) of the zone, which must lie below the write pointer.
  // They are valid until the next call.
  IOStatus Get(std::uint64_t offset, std::size_t size, std::string_view* bytes) {
    if (offset < from_ || offset + size > to_) {
      from_ = to_ = offset / block_ * block_;  // empty if the read fails
      // The write pointer is a multiple of the block size.
      std::uint64_t end =
          std::min(limit_, RoundUp(std::max(from_ + kWindow, offset + size), block_));
      window_ = AllocateAligned(end - from_);
      IOStatus status = device_->Read(zone_, from_, end - from_, window_.get());
      if (!status.ok()) {
        // A window can reach blocks that cannot be read, or that were never written.
        end = std::min(limit_, RoundUp(offset + size, block_));
        status = device_->Read(zone_, from_, end - from_, window_.get());
      }
      RETURN_IF_ERROR(status);
      to_ = end;
    }
    *bytes = std::string_view(window_.get() + (offset - from_), size);
    return IOStatus::OK();
  }

  // Calls `visit` for each complete sealed block, starting at `offset`. `previous` is the checksum
  // that the first header must contain. Errors: `error`, "corrupt-size", and errors from `visit`.
  using Visit = std::function<IOStatus(std::uint64_t offset, const SealedHeader& header,
                                       std::string_view content)>;
  IOStatus Read(std::uint32_t magic, const char* error, std::uint64_t offset,
                std::uint64_t previous, const Visit& visit) {
    for (std::uint64_t number = 0; offset < limit_;) {
      std::string_view bytes;
      RETURN_IF_ERROR(Get(offset, kHeaderSize, &bytes));
      SealedHeader header;
      if (!ReadHeader(bytes, magic, &header)) {
        return EndsAt(offset, Corrupt(error, zone_, offset, "no header"));
      }
      const std::size_t size = SealedSize(header.size, block_);
      if (offset + size > limit_) return Torn(offset, header);
      RETURN_IF_ERROR(Get(offset, size, &bytes));
      if (!ContentIsRight(bytes, header)) {
        return EndsAt(offset + size, Corrupt(error, zone_, offset, "wrong checksum"));
      }
      if (header.number <= number || header.previous != previous) {
        return Corrupt(error, zone_, offset, "out of order");
      }
      RETURN_IF_ERROR(visit(offset, header, bytes.substr(kHeaderSize, header.size)));
      number = header.number;
      previous = header.checksum;
      offset += size;
    }
    return IOStatus::OK();
  }

 private:
  static constexpr std::size_t kWindow = 1 << 20;

  // Returns OK if the zone is finished and has only unwritten blocks from `offset` on, and
  // `otherwise` if not. A mount that finds too many active zones finishes some. If it crashes
  // before its roll-over, such a zone may end with a torn block and unwritten ones. Without a write
  // pointer, reads beyond the content may fail.
  IOStatus EndsAt(std::uint64_t offset, const IOStatus& otherwise) {
    if (!finished_) return otherwise;
    for (std::uint64_t size; offset < limit_; offset += size) {
      size = std::min(kWindow, limit_ - offset);
      std::string_view bytes;
      const IOStatus status = Get(offset, size, &bytes);
      if (!status.ok()) return blind_ ? IOStatus::OK() : status;
      if (!IsUnwritten(bytes)) return otherwise;
    }
    return IOStatus::OK();
  }

  // Only the last sealed block can be torn. If a later one follows, the size is corrupt.
  IOStatus Torn(std::uint64_t offset, const SealedHeader& torn) {
    for (std::uint64_t at = offset + block_; at < limit_; at += block_) {
      std::string_view bytes;
      RETURN_IF_ERROR(Get(at, block_, &bytes));
      SealedHeader later;
      if (ReadHeader(bytes, torn.magic, &later) && later.number > torn.number) {
        return Corrupt("corrupt-size", zone_, offset, "others follow");
      }
    }
    return IOStatus::OK();
  }

  ZonedDevice* const device_;
  const std::uint32_t zone_;
  const std::uint64_t block_;
  const bool blind_;  // without a write pointer
  const std::uint64_t limit_;
  const bool finished_;
  AlignedBuffer window_;
  std::uint64_t from_ = 0;  // the window holds [from_, to_)
  std::uint64_t to_ = 0;
};

// Applies the records of one frame.
IOStatus ApplyFrame(std::uint32_t zone, std::uint64_t offset, const SealedHeader& header,
                    std::string_view content, Generation* result) {
  const auto kind = static_cast<FrameKind>(header.subject);
  if (kind == FrameKind::kSuperseded && header.generation == result->superblock.generation) {
    result->superseded = true;
    return IOStatus::OK();
  }
  const bool first = result->last_frame == 0;
  if (header.generation != result->superblock.generation || kind > FrameKind::kSnapshotEnd ||
      (!first && header.number != result->last_frame + 1) || header.position >= header.number ||
      header.position < result->flushed_frame ||
      (kind == FrameKind::kRecords) != result->space.whole) {
    return Corrupt("corrupt-frame", zone, offset, "out of order");
  }
  std::vector<Record> records;
  if (!DecodeRecords(content, &records)) {
    return Corrupt("corrupt-record", zone, offset, "malformed");
  }
  for (const Record& record : records) {
    RETURN_IF_ERROR(result->space.Apply(record, header.number));
  }
  result->last_frame = header.number;
  result->last_checksum = header.checksum;
  result->flushed_frame = header.position;
  if (kind == FrameKind::kSnapshotEnd) result->space.whole = true;
  return IOStatus::OK();
}

// Reads the generation in a metadata zone.
IOStatus ReadMetadataZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info,
                          Generation* result) {
  const bool blind = NoWritePointer(info.condition);
  if (info.write_pointer == 0 && !blind) return IOStatus::OK();
  SealedZone frames(device, zone, info);
  std::string_view bytes;
  RETURN_IF_ERROR(frames.Get(0, device->geometry().block_size, &bytes));
  if (blind && IsUnwritten(bytes)) return IOStatus::OK();
  RETURN_IF_ERROR(DecodeSuperblock(bytes, &result->superblock));
  const Superblock& superblock = result->superblock;
  const Geometry& geometry = device->geometry();
  if (superblock.zone_size != geometry.zone_size || superblock.zone_count != geometry.zone_count ||
      superblock.identity() != geometry.identity) {
    return IOStatus::Corruption(
        "wrong-device", "formatted as " + superblock.identity() + " with " +
                            std::to_string(superblock.zone_count) + " zones of " +
                            std::to_string(superblock.zone_size) + " B, is " + geometry.identity);
  }
  result->started = true;
  std::uint64_t checksum;
  std::memcpy(&checksum, bytes.data() + kSuperblockChecksumOffset, sizeof(checksum));
  return frames.Read(
      kFrameMagic, "corrupt-frame", superblock.block_size, checksum,
      [&](std::uint64_t offset, const SealedHeader& header, std::string_view content) {
        return ApplyFrame(zone, offset, header, content, result);
      });
}

// As ReadMetadataZone, but reads again after a short disturbance.
IOStatus ReadGeneration(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info,
                        Generation* result) {
  IOStatus status;
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    *result = {};
    status = ReadMetadataZone(device, zone, info, result);
    if (!status.IsIOError()) break;
  }
  return status;
}

struct Piece {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t number = 0;
  Extent extent;      // of the content
  bool last = false;  // nothing follows in its zone

  // The newest of several pieces for the same offset comes first.
  bool operator<(const Piece& other) const {
    return std::tie(file, offset, other.number) < std::tie(other.file, other.offset, number);
  }
};

// Reads all pieces of a log zone, except a torn last piece.
IOStatus ReadPieces(ZonedDevice* device, std::uint32_t zone, std::uint64_t start, Effort effort,
                    Recovered* recovered, std::vector<Piece>* pieces) {
  const auto add = [&](std::uint64_t offset, const SealedHeader& header, std::string_view) {
    const bool newer = header.generation > recovered->superblock.generation;
    if ((newer && effort == Effort::kExact) || header.size == 0) {
      return Corrupt("corrupt-piece", zone, offset, "out of order");
    }
    recovered->last_piece = std::max(recovered->last_piece, header.number);
    // File ids are never reused, even if only pieces of the file remain.
    recovered->space.next_file = std::max(recovered->space.next_file, header.subject + 1);
    pieces->push_back({.file = header.subject,
                       .offset = header.position,
                       .number = header.number,
                       .extent = {zone, offset + kHeaderSize, header.size}});
    return IOStatus::OK();
  };
  const std::size_t before = pieces->size();
  IOStatus status;
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    pieces->resize(before);
    status = SealedZone(device, zone, recovered->zones[zone])
                 .Read(kPieceMagic, "corrupt-piece", start, 0, add);
    if (!status.IsIOError()) break;
  }
  if (pieces->size() > before) pieces->back().last = true;
  return status;
}

// Finds the files whose end may lie in a log zone that cannot be read or is damaged, and the log
// zones to keep.
void MarkLostEnds(const std::set<std::uint32_t>& unreadable, const std::set<std::uint32_t>& damaged,
                  Recovered* recovered) {
  recovered->kept_logs = unreadable;
  // A later mount may find pieces there of files whose creation was lost. No new file may get the
  // ids of these files.
  if (!unreadable.empty()) recovered->space.next_file += kUnseenFiles;
  for (const auto& [id, file] : recovered->space.files) {
    for (const std::uint32_t zone : file->log_zones) {
      if (unreadable.contains(zone) || damaged.contains(zone)) file->lost_zone = zone;
    }
    // Pieces that follow the lost ones must stay readable for a later mount.
    if (file->lost_zone)
      recovered->kept_logs.insert(file->log_zones.begin(), file->log_zones.end());
  }
  for (const std::uint32_t zone : damaged) recovered->kept_logs.erase(zone);
}

IOStatus AddPieces(ZonedDevice* device, Effort effort, Recovered* recovered) {
  std::vector<Piece> pieces;
  std::set<std::uint32_t> unreadable;
  std::set<std::uint32_t> damaged;  // no later mount can read more of them
  for (const auto& [zone, start] : recovered->space.log_zones) {
    if (zone >= recovered->zones.size() || zone < kMetadataZones) {
      return IOStatus::Corruption("corrupt-record", "no log zone " + std::to_string(zone));
    }
    if (start % recovered->superblock.block_size != 0 || start > recovered->zones[zone].capacity) {
      return Corrupt("corrupt-piece", zone, start, "no log zone can begin there");
    }
    recovered->fragile[zone] = true;
    const IOStatus status = ReadPieces(device, zone, start, effort, recovered, &pieces);
    if (status.IsIOError()) {
      unreadable.insert(zone);
    } else if (status.IsCorruption() && effort == Effort::kSalvage) {
      damaged.insert(zone);
      recovered->losses.push_back("all pieces of a zone from there on: " + status.ToString());
    } else {
      RETURN_IF_ERROR(status);
    }
  }
  std::sort(pieces.begin(), pieces.end());
  const Piece* end = nullptr;  // the piece at the end of the file; null: a record describes the end
  for (const Piece& piece : pieces) {
    const Extent& extent = piece.extent;
    if (end != nullptr && end->file != piece.file) end = nullptr;
    const auto entry = recovered->space.files.find(piece.file);
    if (entry == recovered->space.files.end()) continue;  // deleted, or its creation was lost
    File& file = *entry->second;
    if (file.kind != FileKind::kLog) {
      return Corrupt("corrupt-piece", extent.zone, extent.offset, "of a data file");
    }
    if (piece.offset > file.size) continue;  // never synced: the bytes before this piece were lost
    if (piece.offset + extent.length <= file.size) continue;  // there is a copy already
    if (piece.offset != file.size) {
      // A failed write can leave a whole piece. It ends its zone, and its content is written again
      // in other zones, perhaps divided in another way. The new copy counts. A mount that could not
      // read the new copy has recorded the old one.
      const bool newer = end == nullptr || piece.number > end->number;
      const bool ends_zone = newer ? end == nullptr || end->last : piece.last;
      if (!ends_zone && effort == Effort::kExact) {
        return Corrupt("corrupt-piece", extent.zone, extent.offset, "overlaps another");
      }
      if (!newer) continue;
      file.Cut(piece.offset);
    }
    file.Append(extent, 0);
    end = &piece;
  }
  MarkLostEnds(unreadable, damaged, recovered);
  return IOStatus::OK();
}

std::uint64_t Covered(const ZoneInfo& zone) {
  // Without a write pointer, only the read shows what is lost.
  return NoWritePointer(zone.condition) ? zone.capacity : zone.write_pointer;
}

IOStatus CutAtWritePointers(Effort effort, Recovered* recovered) {
  for (const auto& [id, entry] : recovered->space.files) {
    File& file = *entry;
    std::uint64_t before = 0;
    std::optional<std::uint64_t> keep;  // file offset of the first byte that is not covered
    for (std::size_t i = 0; i < file.extents.size(); ++i) {
      const Extent& extent = file.extents[i];
      const std::string name = "file " + std::to_string(id);
      const auto wrong = [&](const std::string& what) {
        return Corrupt("corrupt-extent", extent.zone, extent.offset, name + " " + what);
      };
      if (extent.zone < kMetadataZones || extent.zone >= recovered->zones.size()) {
        return wrong("lies in no data zone");
      }
      const ZoneInfo& zone = recovered->zones[extent.zone];
      if (extent.offset > zone.capacity || extent.length > zone.capacity - extent.offset) {
        return wrong("exceeds the capacity");
      }
      const std::uint64_t into = extent.offset % recovered->superblock.block_size;
      if (into != 0 && (file.kind != FileKind::kLog || into != kHeaderSize)) {
        return wrong("begins within a block");
      }
      const std::uint64_t covered = Covered(zone);
      if (extent.end() > covered) {
        if (file.frames[i] != 0 && file.frames[i] <= recovered->flushed_frame) {
          if (effort == Effort::kExact) {
            return Corrupt("lost-data", extent.zone, extent.offset,
                           "flushed content of " + name + " is behind the write pointer");
          }
          file.lost_zone = extent.zone;
          recovered->losses.push_back("the end of " + file.name + ": zone " +
                                      std::to_string(extent.zone) + " ends before it");
        }
        recovered->fragile[extent.zone] = true;
        if (!keep) keep = before + (covered > extent.offset ? covered - extent.offset : 0);
      }
      before += extent.length;
    }
    if (keep) file.Cut(*keep);
  }
  return IOStatus::OK();
}

// Checks that no two extents share a block.
IOStatus CheckBlocks(const Recovered& recovered) {
  const std::uint64_t block = recovered.superblock.block_size;
  std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> blocks;  // zone, first, end
  for (const auto& [id, file] : recovered.space.files) {
    for (const Extent& extent : file->extents) {
      blocks.emplace_back(extent.zone, extent.offset / block, (extent.end() + block - 1) / block);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    const auto& [zone, first, end] = blocks[i];
    const auto& [zone_before, first_before, end_before] = blocks[i - 1];
    if (zone == zone_before && first < end_before) {
      return Corrupt("corrupt-blocks", zone, first * block, "two extents share it");
    }
  }
  return IOStatus::OK();
}

// A metadata zone after reading it.
struct Candidate {
  Generation generation;
  IOStatus status;  // of reading it: frames before the error are in `generation`

  std::uint64_t number() const { return generation.superblock.generation; }
  // A damaged superblock counts as unreadable, not as foreign: another copy may be whole.
  bool IsForeign() const {
    return status.IsCorruption() && !generation.started &&
           !std::string_view(status.getState()).starts_with("corrupt-superblock");
  }
  // Whether it can have durable content that `other` lacks.
  bool IsNewerThan(const Candidate& other) const {
    if (number() != other.number()) return number() > other.number();
    return generation.flushed_frame > other.generation.last_frame;
  }
  // Of two copies of a generation, the longer one is better. Copies of a newer one are better
  // still.
  bool IsBetterThan(const Candidate& other) const {
    return std::pair(number(), generation.last_frame) >
           std::pair(other.number(), other.generation.last_frame);
  }
  // An incomplete generation comes from an interrupted roll-over.
  bool Usable(Effort effort) const {
    if (!generation.space.whole) return false;
    return effort == Effort::kSalvage || (status.ok() && !generation.superseded);
  }
};

// Returns an error if a zone may hold a newer state than `newest`. A roll-over resets or marks the
// generation before it. So an old generation is whole and unmarked only in zones that take no
// commands. `marks`: a zone of `newest` takes commands, so an unmarked `newest` is the newest.
IOStatus CheckNewest(const std::vector<Candidate>& candidates, const Candidate& newest,
                     bool marks) {
  for (std::uint32_t zone = 0; zone < candidates.size(); ++zone) {
    const Candidate& one = candidates[zone];
    const bool newer = one.generation.started && one.IsNewerThan(newest);
    if (one.status.ok() && !(newer && one.generation.superseded)) continue;
    if (one.status.IsCorruption() && newer) return one.status;
    if (newer || (!one.generation.started && !marks)) {
      return IOStatus::IOError("lost-log",
                               "metadata zone " + std::to_string(zone) +
                                   " may hold a newer generation: " + one.status.ToString());
    }
  }
  return IOStatus::OK();
}

// Finds the zones with copies of the newest generation. Returns whether one of them takes commands.
bool FindCopies(const std::vector<Candidate>& candidates, const Candidate& newest, Effort effort,
                Recovered* recovered) {
  bool marks = false;
  const auto frames = [&candidates](std::uint32_t zone) {
    return candidates[zone].generation.last_frame;
  };
  const auto takes_commands = [recovered](std::uint32_t zone) {
    return !NoWritePointer(recovered->zones[zone].condition);
  };
  std::vector<std::uint32_t>& copies = recovered->metadata_zones;
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    const Candidate& one = candidates[zone];
    const bool other = one.generation.started && one.number() != newest.number();
    if (!one.status.ok() && !other) recovered->unreadable_metadata.insert(zone);
    if (!one.Usable(effort) || other) continue;
    copies.push_back(zone);
    marks |= takes_commands(zone);
  }
  // The roll-over keeps the first copy. Of two equally long ones, it keeps the one that it cannot
  // replace.
  std::ranges::stable_sort(copies, [&](std::uint32_t a, std::uint32_t b) {
    return frames(a) != frames(b) ? frames(a) > frames(b) : !takes_commands(a) && takes_commands(b);
  });
  return marks;
}

// Returns the error for a volume without a usable generation.
IOStatus NoGeneration(const std::vector<Candidate>& candidates) {
  bool started = false;
  IOStatus corrupt;
  for (std::uint32_t zone = 0; zone < candidates.size(); ++zone) {
    const Candidate& one = candidates[zone];
    if (one.status.IsIOError()) {
      return IOStatus::IOError("lost-log", "the newest generation may lie in metadata zone " +
                                               std::to_string(zone) + ": " + one.status.ToString());
    }
    if (!one.status.ok()) corrupt = one.status;
    started = started || one.generation.started;
  }
  RETURN_IF_ERROR(corrupt);
  return started ? IOStatus::Corruption("corrupt-log", "no metadata zone has a whole snapshot")
                 : IOStatus::Corruption("wrong-magic", "the metadata zones are empty");
}

IOStatus ReadNewest(ZonedDevice* device, Effort effort, Recovered* recovered) {
  std::vector<Candidate> candidates(kMetadataZones);
  Candidate* newest = nullptr;
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    Candidate& one = candidates[zone];
    one.status = ReadGeneration(device, zone, recovered->zones[zone], &one.generation);
    if (one.status.IsIOError()) recovered->unreadable_metadata.insert(zone);
    // A foreign block belongs to no generation of this volume. So the device may hold other data.
    // But in a read-only zone, it can be older than the volume: mkfs cannot reset this zone.
    const bool resettable = recovered->zones[zone].condition != ZoneCondition::kReadOnly;
    if (one.IsForeign() && resettable && effort == Effort::kExact) return one.status;
    if (!one.Usable(effort)) continue;
    if (newest == nullptr || one.IsBetterThan(*newest)) newest = &one;
  }
  if (newest == nullptr) return NoGeneration(candidates);
  const bool marks = FindCopies(candidates, *newest, effort, recovered);
  IOStatus status = CheckNewest(candidates, *newest, marks);
  if (status.ok()) status = newest->status;
  if (!status.ok() && effort == Effort::kExact) return status;
  static_cast<Generation&>(*recovered) = std::move(newest->generation);
  if (!status.ok() || recovered->superseded) {
    recovered->losses.push_back("all changes behind frame " +
                                std::to_string(recovered->last_frame) + " of generation " +
                                std::to_string(recovered->superblock.generation) +
                                (status.ok() ? "" : ": " + status.ToString()));
  }
  return IOStatus::OK();
}

IOStatus RecoverOnce(ZonedDevice* device, Effort effort, Recovered* recovered) {
  const Geometry& geometry = device->geometry();
  if (geometry.zone_count <= kMetadataZones) return IOStatus::InvalidArgument("too-few-zones");
  RETURN_IF_ERROR(device->Report(0, geometry.zone_count, &recovered->zones));
  RETURN_IF_ERROR(ReadNewest(device, effort, recovered));
  recovered->fragile.assign(geometry.zone_count, false);
  RETURN_IF_ERROR(AddPieces(device, effort, recovered));
  RETURN_IF_ERROR(CutAtWritePointers(effort, recovered));
  return CheckBlocks(*recovered);
}

}  // namespace

IOStatus Recover(ZonedDevice* device, Recovered* recovered, Effort effort) {
  constexpr int kAttempts = 5;
  IOStatus status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    *recovered = {};
    status = RecoverOnce(device, effort, recovered);
    if (!status.IsCorruption()) break;
  }
  return status;
}

}  // namespace zlfs
