// The bytes of an emulated device: in anonymous memory shared by this process's handles, or in a
// file that outlives the process and may be mapped by several.
//
// Layout of the file, little-endian, identical in memory:
//   offset 0      ImageHeader
//   offset 4096   one ZoneRecord per zone
//   data_offset   one region of `stride` bytes per zone, data_offset a multiple of 4096, stride the
//                 zone capacity rounded up to 4096
//
// A zone's state is one 64-bit word that is stored atomically, and data is copied before the word
// that covers it is stored. Whoever maps the file after a kill -9 sees every zone whole: a write
// took place or it did not.

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
  std::uint64_t cache = 0;  // 1: volatile
};

inline constexpr std::string_view kCacheNames[] = {"none", "volatile"};

// The fields of a shape by the names that options and messages use.
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

// What somebody asks of a shape, by field name: a device that is made takes it with the defaults of
// zlfs/zoned/open.h, a device that exists has to agree with it.
using ShapeRequest = std::map<std::string, std::uint64_t>;

struct ImageHeader {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t id;  // random, part of a file's identity
  EmulatedShape shape;
};
static_assert(sizeof(ImageHeader) == 80);

// `written` is what was really written: the write pointer of a full zone is its capacity all the
// same, but reads above `written` give zeros.
struct ZoneState {
  ZoneCondition condition = ZoneCondition::kEmpty;
  std::uint64_t written = 0;  // blocks

  std::uint64_t Pack() const { return written << 8 | static_cast<std::uint64_t>(condition); }
  static ZoneState Unpack(std::uint64_t word) {
    return {.condition = static_cast<ZoneCondition>(word & 0xff), .written = word >> 8};
  }
};

// Packed states: as it is now, and what a loss of power leaves of it.
struct ZoneRecord {
  std::atomic<std::uint64_t> state;
  std::atomic<std::uint64_t> durable;
};
static_assert(sizeof(ZoneRecord) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

class Image {
 public:
  // Opens the in-memory image of that name, and makes it when it is new.
  static IOStatus OpenMemory(const std::string& name, const ShapeRequest& request,
                             std::shared_ptr<Image>* image);
  // Forgets an in-memory image: its memory is freed with the last handle.
  static void ForgetMemory(const std::string& name);
  // Maps the file; a new or empty one is made when access allows it. Each call is a mapping of its
  // own, and a writing one holds the file's lock.
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

  // One writer at a time: false when there is one already.
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
  const int fd_;  // -1: memory
  std::uint64_t data_offset_ = 0;
  std::uint64_t stride_ = 0;
  std::uint64_t size_ = 0;  // of the mapping
  char* base_ = nullptr;
  std::atomic<bool> claimed_ = false;
};

}  // namespace zlfs
