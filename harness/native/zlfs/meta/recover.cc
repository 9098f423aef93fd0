#include "zlfs/meta/recover.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "zlfs/format/sealed.h"

namespace zlfs {
namespace {

IOStatus Corrupt(const std::string& name, std::uint32_t zone, std::uint64_t offset,
                 const std::string& what) {
  return IOStatus::Corruption(
      name, "zone " + std::to_string(zone) + " offset " + std::to_string(offset) + ": " + what);
}

// Reads a zone of sealed blocks up to its write pointer. Buffers a window of the zone.
class SealedZone {
 public:
  SealedZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info)
      : device_(device),
        zone_(zone),
        block_(device->geometry().block_size),
        limit_(info.write_pointer),
        finished_(info.condition == ZoneCondition::kFull) {}

  // Returns the bytes [offset, offset + size) of the zone, which must lie below the write pointer.
  // They are valid until the next call.
  IOStatus Get(std::uint64_t offset, std::size_t size, std::string_view* bytes) {
    if (offset < from_ || offset + size > to_) {
      from_ = to_ = offset / block_ * block_;  // empty if the read fails
      // The write pointer is a multiple of the block size.
      const std::uint64_t end =
          std::min(limit_, RoundUp(std::max(from_ + kWindow, offset + size), block_));
      window_ = AllocateAligned(end - from_);
      RETURN_IF_ERROR(device_->Read(zone_, from_, end - from_, window_.get()));
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
        return EndsAt(offset) ? IOStatus::OK() : Corrupt(error, zone_, offset, "no header");
      }
      const std::size_t size = SealedSize(header.size, block_);
      if (offset + size > limit_) return Torn(offset, header);
      RETURN_IF_ERROR(Get(offset, size, &bytes));
      if (!ContentIsRight(bytes, header)) {
        return EndsAt(offset + size) ? IOStatus::OK()
                                     : Corrupt(error, zone_, offset, "wrong checksum");
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

  // Returns whether the zone is finished and has only zeros from `offset` on. A mount that finds
  // too many active zones finishes some. If it crashes before its roll-over, such a zone may end
  // with a torn block and zeros.
  bool EndsAt(std::uint64_t offset) {
    for (std::uint64_t size; finished_ && offset < limit_; offset += size) {
      size = std::min(kWindow, limit_ - offset);
      std::string_view bytes;
      if (!Get(offset, size, &bytes).ok()) return false;
      if (bytes.find_first_not_of('\0') != std::string_view::npos) return false;
    }
    return finished_;
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
  result->flushed_frame = header.position;
  if (kind == FrameKind::kSnapshotEnd) result->space.whole = true;
  return IOStatus::OK();
}

IOStatus ReadMetadataZone(ZonedDevice* device, std::uint32_t zone, const ZoneInfo& info,
                          Generation* result) {
  if (info.condition == ZoneCondition::kNoWritePointer ||
      info.condition == ZoneCondition::kOffline) {
    return IOStatus::IOError("unusable-metadata-zone", "zone " + std::to_string(zone));
  }
  if (info.write_pointer == 0) return IOStatus::OK();
  SealedZone frames(device, zone, info);
  std::string_view bytes;
  RETURN_IF_ERROR(frames.Get(0, device->geometry().block_size, &bytes));
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

// File id, file offset, and extent of the content.
using Piece = std::tuple<std::uint64_t, std::uint64_t, Extent>;

// Reads all pieces of a log zone, except a torn last piece.
IOStatus ReadPieces(ZonedDevice* device, std::uint32_t zone, std::uint64_t start,
                    Recovered* recovered, std::vector<Piece>* pieces) {
  const auto add = [&](std::uint64_t offset, const SealedHeader& header, std::string_view) {
    if (header.generation > recovered->superblock.generation || header.size == 0) {
      return Corrupt("corrupt-piece", zone, offset, "out of order");
    }
    recovered->last_piece = std::max(recovered->last_piece, header.number);
    // File ids are never reused, even if only pieces of the file remain.
    recovered->space.next_file = std::max(recovered->space.next_file, header.subject + 1);
    pieces->emplace_back(header.subject, header.position,
                         Extent{zone, offset + kHeaderSize, header.size});
    return IOStatus::OK();
  };
  return SealedZone(device, zone, recovered->zones[zone])
      .Read(kPieceMagic, "corrupt-piece", start, 0, add);
}

IOStatus AddPieces(ZonedDevice* device, Recovered* recovered) {
  std::vector<Piece> pieces;
  for (const auto& [zone, start] : recovered->space.log_zones) {
    if (zone >= recovered->zones.size() || zone < kMetadataZones) {
      return IOStatus::Corruption("corrupt-record", "no log zone " + std::to_string(zone));
    }
    if (start % recovered->superblock.block_size != 0 || start > recovered->zones[zone].capacity) {
      return Corrupt("corrupt-piece", zone, start, "no log zone can begin there");
    }
    recovered->fragile[zone] = true;
    RETURN_IF_ERROR(ReadPieces(device, zone, start, recovered, &pieces));
  }
  std::sort(pieces.begin(), pieces.end());
  for (const auto& [id, offset, extent] : pieces) {
    const auto entry = recovered->space.files.find(id);
    if (entry == recovered->space.files.end()) continue;  // deleted, or its creation was lost
    File& file = *entry->second;
    if (file.kind != FileKind::kLog) {
      return Corrupt("corrupt-piece", extent.zone, extent.offset, "of a data file");
    }
    if (offset > file.size) continue;  // never synced: the bytes before this piece were lost
    if (offset + extent.length <= file.size) continue;  // a record already covers it
    if (offset != file.size) {
      return Corrupt("corrupt-piece", extent.zone, extent.offset, "overlaps another");
    }
    file.Append(extent, 0);
  }
  return IOStatus::OK();
}

std::uint64_t Covered(const ZoneInfo& zone) {
  // The write pointer of such a zone is undefined. Reads detect lost data.
  const bool unknown =
      zone.condition == ZoneCondition::kReadOnly || zone.condition == ZoneCondition::kOffline;
  return unknown ? zone.capacity : zone.write_pointer;
}

IOStatus CutAtWritePointers(Recovered* recovered) {
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
          return Corrupt("lost-data", extent.zone, extent.offset,
                         "flushed content of " + name + " is behind the write pointer");
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

IOStatus RecoverOnce(ZonedDevice* device, Recovered* recovered) {
  const Geometry& geometry = device->geometry();
  if (geometry.zone_count <= kMetadataZones) return IOStatus::InvalidArgument("too-few-zones");
  RETURN_IF_ERROR(device->Report(0, geometry.zone_count, &recovered->zones));
  Generation found[kMetadataZones];
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    RETURN_IF_ERROR(ReadMetadataZone(device, zone, recovered->zones[zone], &found[zone]));
  }
  const auto number = [&found](std::uint32_t zone) { return found[zone].superblock.generation; };
  if (!found[0].space.whole && !found[1].space.whole) {
    const bool started = found[0].started || found[1].started;
    return started ? IOStatus::Corruption("corrupt-log", "no metadata zone has a whole snapshot")
                   : IOStatus::Corruption("wrong-magic", "the metadata zones are empty");
  }
  const bool both = found[0].space.whole && found[1].space.whole;
  const std::uint32_t newest = both ? number(1) > number(0) : found[1].space.whole;
  const std::uint32_t other = 1 - newest;
  // An incomplete generation comes from an interrupted roll-over.
  if (found[other].started && number(other) != (both ? number(newest) - 1 : number(newest) + 1)) {
    return IOStatus::Corruption("corrupt-log", "generations of the metadata zones do not fit");
  }
  static_cast<Generation&>(*recovered) = std::move(found[newest]);
  recovered->metadata_zone = newest;
  recovered->fragile.assign(geometry.zone_count, false);
  RETURN_IF_ERROR(AddPieces(device, recovered));
  RETURN_IF_ERROR(CutAtWritePointers(recovered));
  return CheckBlocks(*recovered);
}

}  // namespace

IOStatus Recover(ZonedDevice* device, Recovered* recovered) {
  constexpr int kAttempts = 5;
  IOStatus status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    *recovered = {};
    status = RecoverOnce(device, recovered);
    if (!status.IsCorruption()) break;
  }
  return status;
}

}  // namespace zlfs
