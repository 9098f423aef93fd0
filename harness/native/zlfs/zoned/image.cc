#include "zlfs/zoned/image.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <limits>
#include <mutex>
#include <random>
#include <utility>

#include "zlfs/zoned/buffer.h"

namespace zlfs {
namespace {

static_assert(std::endian::native == std::endian::little, "images are stored little-endian");

constexpr std::uint64_t kMagic = 0x31304c554d454c5a;  // ZLEMUL01
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kPageSize = 4096;
constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 46;  // half of the 2^47 address space

// In-memory images by name.
std::mutex memory_mutex;  // guards Memory()
std::map<std::string, std::shared_ptr<Image>>& Memory() {
  static auto* const images = new std::map<std::string, std::shared_ptr<Image>>;
  return *images;
}

bool Makes(const ShapeRequest& request) {
  return request.contains("zones") && request.contains("zone_size");
}

IOStatus CheckShape(const EmulatedShape& shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t block = shape.block_size == 512 ? 512 : 4096;
  const auto fits = [block](std::uint64_t size, std::uint64_t limit) {
    return size > 0 && size % block == 0 && size <= limit;
  };
  if (shape.block_size == block && shape.zones > 0 && shape.zones <= kMost &&
      fits(shape.zone_size, kMaxSize / shape.zones) && fits(shape.zone_capacity, shape.zone_size) &&
      shape.max_active <= kMost && shape.max_open <= kMost &&
      (shape.max_active == 0 || (shape.max_open > 0 && shape.max_open <= shape.max_active))) {
    return IOStatus::OK();
  }
  return MakeError(DeviceError::kBadSpec,
                   "impossible shape: block_size is 512 or 4096, zone_size and zone_capacity "
                   "are multiples of it, zone_capacity is at most zone_size, max_open at most "
                   "max_active, and all zones have to fit into the address space");
}

// Computes the shape of a new device.
IOStatus Complete(const ShapeRequest& request, EmulatedShape* shape) {
  if (!Makes(request)) {
    return MakeError(DeviceError::kMissing, "no such device; zones= and zone_size= make one");
  }
  for (const ShapeField& field : kShapeFields) {
    const auto asked = request.find(field.name);
    if (asked != request.end()) shape->*field.value = asked->second;
  }
  if (!request.contains("zone_capacity")) shape->zone_capacity = shape->zone_size;
  if (!request.contains("max_open")) shape->max_open = shape->max_active;
  return CheckShape(*shape);
}

IOStatus Agree(const ShapeRequest& request, const EmulatedShape& shape) {
  for (const ShapeField& field : kShapeFields) {
    const auto asked = request.find(field.name);
    if (asked != request.end() && asked->second != shape.*field.value) {
      return MakeError(DeviceError::kBadSpec,
                       asked->first + ": the existing device has another value");
    }
  }
  return IOStatus::OK();
}

// Reserves blocks before it sets the size, so that a kill leaves an empty file. Returns an errno.
int Reserve(int fd, off_t size) {
  if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size) == 0) return ftruncate(fd, size) == 0 ? 0 : errno;
  return errno == EOPNOTSUPP ? posix_fallocate(fd, 0, size) : errno;
}

}  // namespace

IOStatus Image::OpenMemory(const std::string& name, const ShapeRequest& request,
                           std::shared_ptr<Image>* image) {
  const std::lock_guard lock(memory_mutex);
  std::shared_ptr<Image>& known = Memory()[name];
  *image = known;
  if (known != nullptr) return Agree(request, known->shape());
  std::shared_ptr<Image> made(new Image(-1));
  RETURN_IF_ERROR(made->Make(name, request));
  *image = known = std::move(made);
  return IOStatus::OK();
}

void Image::ForgetMemory(const std::string& name) {
  const std::lock_guard lock(memory_mutex);
  Memory().erase(name);
}

IOStatus Image::OpenFile(const std::string& path, const ShapeRequest& request, Access access,
                         std::shared_ptr<Image>* image) {
  const bool writes = access == Access::kReadWrite;
  // An image cannot be created without a shape, so do not create an empty file.
  const bool makes = writes && Makes(request);
  const int flags = (writes ? O_RDWR : O_RDONLY) | (makes ? O_CREAT : 0) | O_CLOEXEC;
  const int fd = open(path.c_str(), flags, 0644);
  if (fd < 0) return MakeSystemError(errno, path);
  std::shared_ptr<Image> opened(new Image(fd));
  // Lock before reading the size, so that no second writer attaches to an incomplete image.
  struct stat file = {};
  const int lock = writes ? LOCK_EX : LOCK_SH;
  if (access != Access::kReadOnly && flock(fd, lock | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? MakeError(DeviceError::kBusy, path + ": another process uses it")
                                : MakeSystemError(errno, path);
  }
  if (fstat(fd, &file) != 0) return MakeSystemError(errno, path);
  RETURN_IF_ERROR(file.st_size == 0 && makes ? opened->Make(path, request)
                                             : opened->Attach(path, request, access));
  *image = std::move(opened);
  return IOStatus::OK();
}

Image::~Image() {
  if (base_ != nullptr) munmap(base_, size_);
  if (fd_ >= 0) close(fd_);  // also releases the file lock
}

IOStatus Image::Make(const std::string& name, const ShapeRequest& request) {
  EmulatedShape shape;
  RETURN_IF_ERROR(Complete(request, &shape));
  SetShape(shape);
  if (fd_ >= 0) {
    // Reserve the space: a store to a mapped file on a full file system kills the process. Check
    // first, because a reservation that fails can fill the file system for a moment.
    struct statvfs fs = {};
    if (fstatvfs(fd_, &fs) != 0 || fs.f_bavail * fs.f_frsize < size_) {
      return MakeError(DeviceError::kNoSpace, name + ": needs " + std::to_string(size_) + " bytes");
    }
    const int failed = Reserve(fd_, static_cast<off_t>(size_));
    if (failed != 0) {
      // An empty file can become an image later, an incomplete one cannot.
      return ftruncate(fd_, 0) == 0 ? MakeSystemError(failed, name) : MakeSystemError(errno, name);
    }
  }
  RETURN_IF_ERROR(Map(Access::kReadWrite));
  std::random_device random;
  const std::uint64_t id = std::uint64_t{random()} << 32 | random();
  // The rest of the image is zero, so all zones are empty.
  *header() = {.magic = kMagic, .version = kVersion, .id = id, .shape = shape};
  return IOStatus::OK();
}

IOStatus Image::Attach(const std::string& path, const ShapeRequest& request, Access access) {
  const auto bad = [&path](const char* why) {
    return MakeError(DeviceError::kBadImage, path + ": " + why);
  };
  ImageHeader found = {};
  struct stat file = {};
  if (pread(fd_, &found, sizeof(found), 0) < 0 || fstat(fd_, &file) != 0) {
    return MakeSystemError(errno, path);
  }
  if (found.magic != kMagic) return bad("not an emulated device");
  if (found.version > kVersion) return bad("made by a newer version");
  if (found.version < kVersion || !CheckShape(found.shape).ok()) return bad("damaged header");
  SetShape(found.shape);
  if (static_cast<std::uint64_t>(file.st_size) < size_) return bad("cut short");
  RETURN_IF_ERROR(Map(access));
  const std::uint64_t blocks = shape_.zone_capacity / shape_.block_size;
  for (std::uint32_t zone = 0; zone < shape_.zones; ++zone) {
    for (const ZoneState state : {State(zone), Durable(zone)}) {
      if (state.condition > ZoneCondition::kOffline || state.written > blocks) {
        return bad("damaged zone table");
      }
    }
  }
  return Agree(request, shape_);
}

void Image::SetShape(const EmulatedShape& shape) {
  shape_ = shape;
  stride_ = RoundUp(shape.zone_capacity, kPageSize);
  data_offset_ = RoundUp(kRecordsOffset + shape.zones * sizeof(ZoneRecord), kPageSize);
  size_ = data_offset_ + shape.zones * stride_;
}

IOStatus Image::Map(Access access) {
  const int protection = PROT_READ | (access == Access::kReadWrite ? PROT_WRITE : 0);
  const int flags = fd_ < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* const base = mmap(nullptr, size_, protection, flags, fd_, 0);
  if (base == MAP_FAILED) return MakeSystemError(errno, "mmap");
  base_ = static_cast<char*>(base);
  return IOStatus::OK();
}

}  // namespace zlfs
