#include "zlfs/meta/saved_tail.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "zlfs/format/codec.h"
#include "zlfs/format/sealed.h"

namespace zlfs {
namespace {

constexpr std::uint32_t kTailMagic = 0x4c41545a;  // "ZTAL"

// A file that is missing has no content.
IOStatus ReadFile(const std::string& path, std::string* content) {
  content->clear();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? IOStatus::OK() : MakeSystemError(errno, path);
  ssize_t n = 1;
  while (n > 0) {
    char part[1 << 16];
    n = read(fd, part, sizeof(part));
    if (n > 0) content->append(part, static_cast<std::size_t>(n));
    if (n < 0 && errno == EINTR) n = 1;
  }
  const int failed = errno;
  close(fd);
  return n == 0 ? IOStatus::OK() : MakeSystemError(failed, path);
}

// Whether the file system overwrites allocated blocks in place. Elsewhere, a write to mapped memory
// on a full file system ends the process with SIGBUS.
bool WritesInPlace(int fd) {
  constexpr std::int64_t kXfsMagic = 0x58465342;  // linux/magic.h has it from Linux 6.4
  struct statfs system = {};
  return fstatfs(fd, &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == EXT4_SUPER_MAGIC ||
          system.f_type == kXfsMagic);
}

char* Map(int fd) {
  if (!WritesInPlace(fd) || fallocate(fd, 0, 0, SavedTail::kMapped) != 0) return nullptr;
  void* const map = mmap(nullptr, SavedTail::kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return map == MAP_FAILED ? nullptr : static_cast<char*>(map);
}

}  // namespace

SavedTail::SavedTail(std::string path, int fd, std::uint64_t file, std::uint64_t key)
    : path_(std::move(path)), fd_(fd), map_(Map(fd)), file_(file), key_(key) {}

SavedTail::~SavedTail() {
  if (map_ != nullptr) munmap(map_, kMapped);
  close(fd_);
}

IOStatus SavedTail::Save(std::uint64_t start, std::string_view tail) {
  if (start != start_) {
    start_ = start;
    saved_ = 0;
    at_ = 0;
    previous_ = 0;
  }
  const std::string_view added = tail.substr(saved_);
  if (added.empty()) return IOStatus::OK();
  const std::size_t size = kHeaderSize + added.size();
  const bool mapped = map_ != nullptr && at_ + size <= kMapped;
  if (!mapped) block_.resize(size);
  char* const block = mapped ? map_ + at_ : block_.data();
  std::memcpy(block + kHeaderSize, added.data(), added.size());
  const std::uint64_t checksum = Seal({.magic = kTailMagic,
                                       .size = static_cast<std::uint32_t>(added.size()),
                                       .subject = file_,
                                       .position = start + saved_,
                                       .generation = key_,
                                       .previous = previous_},
                                      block, size);
  if (!mapped) RETURN_IF_ERROR(Write(block_));
  saved_ = tail.size();
  at_ += size;
  previous_ = checksum;
  return IOStatus::OK();
}

IOStatus SavedTail::Write(std::string_view block) const {
  for (std::size_t done = 0; done < block.size();) {
    const ssize_t n =
        pwrite(fd_, block.data() + done, block.size() - done, static_cast<off_t>(at_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return MakeSystemError(n < 0 ? errno : ENOSPC, path_);
    done += static_cast<std::size_t>(n);
  }
  return IOStatus::OK();
}

void SavedTail::Remove() { unlink(path_.c_str()); }

std::string BootId() {
  std::string id;
  return ReadFile("/proc/sys/kernel/random/boot_id", &id).ok() ? id : "";
}

void SavedTails::Begin(const std::string& folder, const std::array<char, 16>& volume,
                       const std::string& boot) {
  if (folder.empty() || boot.empty()) return;
  const std::string_view id(volume.data(), volume.size());
  key_ = Checksum(boot + std::string(id));
  char name[17];
  std::snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(Checksum(id)));
  folder_ = folder + "/" + name;
  std::error_code failed;  // New then returns null, so the device gets the tails
  std::filesystem::create_directories(folder_, failed);
}

void SavedTails::End() const {
  if (!folder_.empty()) rmdir(folder_.c_str());  // fails if it holds tails
}

std::string SavedTails::PathOf(std::uint64_t file) const {
  return folder_ + "/" + std::to_string(file);
}

std::unique_ptr<SavedTail> SavedTails::New(std::uint64_t file) const {
  if (folder_.empty()) return nullptr;
  const std::string path = PathOf(file);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  return std::unique_ptr<SavedTail>(new SavedTail(path, fd, file, key_));
}

IOStatus SavedTails::Load(std::uint64_t file, std::uint64_t from, std::string* missing) const {
  missing->clear();
  if (folder_.empty()) return IOStatus::OK();
  std::string blocks;
  RETURN_IF_ERROR(ReadFile(PathOf(file), &blocks));
  std::string tail;
  std::uint64_t start = 0;
  std::uint64_t previous = 0;
  for (std::string_view rest = blocks; rest.size() >= kHeaderSize;) {
    SealedHeader header;
    if (!ReadHeader(rest, kTailMagic, &header) || header.size > rest.size() - kHeaderSize) break;
    const std::string_view block = rest.substr(0, kHeaderSize + header.size);
    // The rest belongs to an earlier, longer chain.
    if (header.previous != previous || header.generation != key_ || header.subject != file) break;
    if (!ContentIsRight(block, header)) break;
    if (tail.empty()) start = header.position;
    tail.append(block.substr(kHeaderSize));
    previous = header.checksum;
    rest.remove_prefix(block.size());
  }
  // The pieces on the device may already contain a part of the tail.
  if (start <= from && from < start + tail.size()) *missing = tail.substr(from - start);
  return IOStatus::OK();
}

void SavedTails::Keep(const std::set<std::uint64_t>& files) const {
  if (folder_.empty()) return;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, failed)) {
    const std::string name = entry.path().filename();
    const auto names = [&name](std::uint64_t file) { return name == std::to_string(file); };
    if (std::ranges::none_of(files, names)) std::filesystem::remove(entry.path(), failed);
  }
}

}  // namespace zlfs
