// The storage of an emulated device. A memory image is anonymous memory that all handles in this
// process share. A file image outlives the process, and several processes can map it.
//
// Layout, little-endian, identical in file and memory:
//   offset 0      ImageHeader
//   offset 4096   one ZoneRecord per zone
//   data_offset   one region of `stride` bytes per zone; data_offset is a multiple of 4096, stride
//                 is the zone capacity rounded up to 4096
//
// A zone's state is one 64-bit word that is stored atomically. The data is copied before the word
// that covers it is stored. Each write is therefore atomic, even if the process is killed.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "zlfs/zoned/device.h"

namespace zlfs {

struct EmulatedShape {
  std::uint64_t block_size = 4096;
  std::uint64_t zones = 0;
  std::uint64_t zone_size = 0;
  std::uint64_t zone_capacity = 0;
  std::uint64_t max_active = 0;
  std::uint64_t max_open = 0;
  std::uint64_t cache = 0;  // index into kCacheNames
};

inline constexpr std::string_view kCacheNames[] = {"none", "volatile"};

// Maps the names of options to the fields of a shape.
struct ShapeField {
  const char* name;
  std::uint64_t EmulatedShape::*value;
  std::span<const std::string_view> words = {};
};
inline constexpr ShapeField kShapeFields[] = {
    {"block_size", &EmulatedShape::block_size},   {"zones", &EmulatedShape::zones},
    {"zone_size", &EmulatedShape::zone_size},     {"zone_capacity", &EmulatedShape::zone_capacity},
    {"max_active", &EmulatedShape::max_active},   {"max_open", &EmulatedShape::max_open},
    {"cache", &EmulatedShape::cache, kCacheNames}};

// Requested shape values by field name. A new device uses them and the defaults of
// zlfs/zoned/open.h. An existing device must match them.
using ShapeRequest = std::map<std::string, std::uint64_t>;

struct ImageHeader {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t id;  // random, part of a file image's identity
  EmulatedShape shape;
};
static_assert(sizeof(ImageHeader) == 80);

// `written` counts the blocks that were written. A finished zone reports its capacity as write
// pointer, but reads above `written` return zeros.
struct ZoneState {
  ZoneCondition condition = ZoneCondition::kEmpty;
  std::uint64_t written = 0;  // blocks

  std::uint64_t Pack() const { return written << 8 | static_cast<std::uint64_t>(condition); }
  static ZoneState Unpack(std::uint64_t word) {
    return {.condition = static_cast<ZoneCondition>(word & 0xff), .written = word >> 8};
  }
};

// Packed states: the current one, and the one that survives a power loss.
struct ZoneRecord {
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> durable;
};
static_assert(sizeof(ZoneRecord) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

class Image {
 public:
  // Opens the in-memory image with this name. Creates it if it does not exist.
  static IOStatus OpenMemory(const std::string& name, const ShapeRequest& request,
                             std::shared_ptr<Image>* image);
  // Removes the name of an in-memory image. The last handle frees its memory.
  static void ForgetMemory(const std::string& name);
  // Maps the file. With read-write access, creates the image if the file is missing or empty. Each
  // call creates a separate mapping. A read-write image holds the file lock, and kReadAlone shares
  // it.
  static IOStatus OpenFile(const std::string& path, const ShapeRequest& request, Access access,
                           std::shared_ptr<Image>* image);

  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image();

  const EmulatedShape& shape() const { return shape_; }
  std::uint64_t id() const { return header()->id; }
  char* Data(std::uint32_t zone) const { return base_ + data_offset_ + zone * stride_; }

  ZoneState State(std::uint32_t zone) const { return ZoneState::Unpack(record(zone).state); }
  ZoneState Durable(std::uint32_t zone) const { return ZoneState::Unpack(record(zone).durable); }
  void SetDurable(std::uint32_t zone, ZoneState state) { record(zone).durable = state.Pack(); }
  void SetState(std::uint32_t zone, ZoneState state) {
    record(zone).state = state.Pack();
    if (shape_.cache == 0) SetDurable(zone, state);
  }

  // Registers the only writer, or a reader that allows none. Returns false if there is one.
  bool Claim() { return !claimed_.exchange(true); }
  void Release() { claimed_ = false; }

 private:
  explicit Image(int fd) : fd_(fd) {}

  IOStatus Make(const std::string& name, const ShapeRequest& request);
  IOStatus Attach(const std::string& path, const ShapeRequest& request, Access access);
  void SetShape(const EmulatedShape& shape);
  IOStatus Map(Access access);

  ImageHeader* header() const { return reinterpret_cast<ImageHeader*>(base_); }
  ZoneRecord& record(std::uint32_t zone) const {
    return reinterpret_cast<ZoneRecord*>(base_ + kRecordsOffset)[zone];
  }

  static constexpr std::uint64_t kRecordsOffset = 4096;

  EmulatedShape shape_;
  const int fd_;  // -1 for a memory image
  std::uint64_t data_offset_ = 0;
  std::uint64_t stride_ = 0;
  std::uint64_t size_ = 0;  // size of the mapping
  char* base_ = nullptr;
  std::atomic<bool> claimed_ = false;
};

}  // namespace zlfs
