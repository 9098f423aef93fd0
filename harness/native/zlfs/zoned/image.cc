#include "zlfs/zoned/image.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {
namespace {

static_assert(std::endian::native == std::endian::little, "images are stored little-endian");
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);

constexpr char kMagic[8] = {'Z', 'L', 'E', 'M', 'U', 'L', '0', '1'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kPageSize = 4096;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 46;  // of an address space's 2^47

// In-memory images by name.
std::mutex memory_mutex;  // guards Memory()
std::map<std::string, std::shared_ptr<Image>>& Memory() {
  static auto* const images = new std::map<std::string, std::shared_ptr<Image>>;
  return *images;
}

IOStatus CheckShape(const EmulatedShape& shape) {
  const auto bad = [](const std::string& rule) { return MakeError(DeviceError::kBadSpec, rule); };
  for (const ShapeField field : {kShapeFields[0], kShapeFields[1], kShapeFields[4]}) {
    if (shape.*field.value > std::numeric_limits<std::uint32_t>::max()) {
      return bad(std::string(field.name) + ": more than 32 bits");
    }
  }
  const std::uint64_t block = shape.block_size;
  if (block != 512 && block != 4096) return bad("block_size: 512 or 4096");
  if (shape.zones == 0) return bad("zones: at least 1");
  if (shape.zone_size == 0 || shape.zone_size % block != 0) {
    return bad("zone_size: a multiple of block_size, not 0");
  }
  if (shape.zone_capacity == 0 || shape.zone_capacity % block != 0 ||
      shape.zone_capacity > shape.zone_size) {
    return bad("zone_capacity: a multiple of block_size, not 0, at most zone_size");
  }
  if (shape.zone_size > kMaxSize / shape.zones) return bad("larger than the address space");
  if (shape.max_active != 0 && (shape.max_open == 0 || shape.max_open > shape.max_active)) {
    return bad("max_open: not above max_active");
  }
  return IOStatus::OK();
}

// The shape of a device that is to be made.
IOStatus Complete(const ShapeRequest& request, EmulatedShape* shape) {
  if (!request.contains("zones") || !request.contains("zone_size")) {
    return MakeError(DeviceError::kMissing, "no such device; zones= and zone_size= make one");
  }
  for (const ShapeField& field : kShapeFields) {
    if (const auto asked = request.find(field.name); asked != request.end()) {
      shape->*field.value = asked->second;
    }
  }
  if (!request.contains("zone_capacity")) shape->zone_capacity = shape->zone_size;
  if (!request.contains("max_open")) shape->max_open = shape->max_active;
  return CheckShape(*shape);
}

IOStatus Agree(const ShapeRequest& request, const EmulatedShape& shape) {
  for (const ShapeField& field : kShapeFields) {
    const auto asked = request.find(field.name);
    if (asked != request.end() && asked->second != shape.*field.value) {
      return MakeError(DeviceError::kBadSpec, asked->first + ": the device has another one");
    }
  }
  return IOStatus::OK();
}

}  // namespace

IOStatus Image::OpenMemory(const std::string& name, const ShapeRequest& request,
                           std::shared_ptr<Image>* image) {
  const std::lock_guard lock(memory_mutex);
  if (const auto found = Memory().find(name); found != Memory().end()) {
    IOStatus status = Agree(request, found->second->shape());
    if (status.ok()) *image = found->second;
    return status;
  }
  EmulatedShape shape;
  if (IOStatus status = Complete(request, &shape); !status.ok()) return status;
  std::shared_ptr<Image> made(new Image(-1));
  made->SetShape(shape);
  if (IOStatus status = made->Map(true); !status.ok()) return status;
  made->Format(0);
  *image = Memory()[name] = std::move(made);
  return IOStatus::OK();
}

void Image::ForgetMemory(const std::string& name) {
  const std::lock_guard lock(memory_mutex);
  Memory().erase(name);
}

IOStatus Image::OpenFile(const std::string& path, const ShapeRequest& request, Access access,
                         std::shared_ptr<Image>* image) {
  const bool writable = access == Access::kReadWrite;
  // Without a shape there is nothing to make, and an empty file would only confuse.
  const bool makes = writable && request.contains("zones") && request.contains("zone_size");
  const int flags = (writable ? O_RDWR : O_RDONLY) | (makes ? O_CREAT : 0) | O_CLOEXEC;
  const int fd = open(path.c_str(), flags, 0644);
  if (fd < 0) return MakeSystemError(errno, path);
  std::shared_ptr<Image> opened(new Image(fd));
  // Taken before the first look, so that nobody attaches to a device that is being made.
  if (writable && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return MakeSystemError(errno, path);
  }
  ImageHeader header = {};
  const ssize_t got = pread(fd, &header, sizeof(header), 0);
  if (got < 0) return MakeSystemError(errno, path);
  IOStatus status;
  if (got == 0 && makes) {
    status = opened->MakeFile(path, request);
  } else {
    status = opened->AttachFile(path, header, writable);
    if (status.ok()) status = Agree(request, opened->shape());
  }
  if (status.ok()) *image = std::move(opened);
  return status;
}

Image::~Image() {
  if (base_ != nullptr) munmap(base_, size_);
  if (fd_ >= 0) close(fd_);  // gives the lock back
}

void Image::SetShape(const EmulatedShape& shape) {
  shape_ = shape;
  stride_ = RoundUp(shape.zone_capacity, kPageSize);
  data_offset_ = RoundUp(kRecordsOffset + shape.zones * sizeof(ZoneRecord), kPageSize);
  size_ = data_offset_ + shape.zones * stride_;
}

IOStatus Image::Map(bool writable) {
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  const int flags = fd_ < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* base = mmap(nullptr, size_, protection, flags, fd_, 0);
  if (base == MAP_FAILED) return MakeSystemError(errno, "mmap");
  base_ = static_cast<char*>(base);
  return IOStatus::OK();
}

void Image::Format(std::uint64_t id) {
  *header() = {.magic = {}, .version = kVersion, .id = id, .shape = shape_};
  std::memcpy(header()->magic, kMagic, sizeof(kMagic));  // fresh bytes are 0: every zone is empty
}

IOStatus Image::MakeFile(const std::string& path, const ShapeRequest& request) {
  EmulatedShape shape;
  if (IOStatus status = Complete(request, &shape); !status.ok()) return status;
  SetShape(shape);
  // A store to a mapping whose file system is full kills the process, so look before.
  struct statvfs fs = {};
  if (fstatvfs(fd_, &fs) != 0) return MakeSystemError(errno, path);
  if (fs.f_bavail * fs.f_frsize < size_) {
    return MakeError(DeviceError::kNoSpace, path + ": needs " + std::to_string(size_) + " bytes");
  }
  if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) return MakeSystemError(errno, path);
  if (IOStatus status = Map(true); !status.ok()) return status;
  std::random_device random;
  Format(std::uint64_t{random()} << 32 | random());
  return IOStatus::OK();
}

IOStatus Image::AttachFile(const std::string& path, const ImageHeader& header, bool writable) {
  const auto bad = [&path](const char* why) {
    return MakeError(DeviceError::kBadImage, path + ": " + why);
  };
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return bad("not an emulated device");
  if (header.version > kVersion) return bad("made by a newer version");
  const EmulatedShape& shape = header.shape;
  if (header.version != kVersion || !CheckShape(shape).ok()) return bad("its header is damaged");
  SetShape(shape);
  struct stat file = {};
  if (fstat(fd_, &file) != 0) return MakeSystemError(errno, path);
  if (static_cast<std::uint64_t>(file.st_size) < size_) return bad("cut short");
  if (IOStatus status = Map(writable); !status.ok()) return status;
  const std::uint64_t blocks = shape.zone_capacity / shape.block_size;
  for (std::uint32_t zone = 0; zone < shape.zones; ++zone) {
    for (const ZoneState state : {State(zone), Durable(zone)}) {
      if (state.condition > ZoneCondition::kOffline || state.written > blocks) {
        return bad("its zone table is damaged");
      }
    }
  }
  return IOStatus::OK();
}

}  // namespace zlfs
