#include "zoneblk/contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace zoneblk {
namespace {

// Returns the free bytes of memory or of a folder, if they are known.
std::optional<Bytes> Room(const std::string& folder) {
  struct statvfs disk {};
  if (!folder.empty()) {
    if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
    return Bytes{disk.f_bavail} * disk.f_frsize;
  }
  std::ifstream lines("/proc/meminfo");
  for (std::string word; lines >> word;) {
    Bytes kib = 0;
    if (word == "MemAvailable:" && lines >> kib) return kib * 1024;
  }
  return std::nullopt;
}

void CheckRoom(const std::string& folder, Bytes used) {
  const std::optional<Bytes> room = Room(folder);
  if (!room || used <= *room) return;
  const std::string where = folder.empty() ? "memory" : folder;
  const std::string hint = folder.empty() ? "name a folder with --contents, or use" : "use";
  throw zonemodel::BadInput("the device can hold " + std::to_string(used >> 20) + " MiB, but " +
                                where + " has " + std::to_string(*room >> 20) + " MiB",
                            hint + " fewer zones: --set zones.count=N");
}

int OpenSparse(const std::string& folder, Bytes size) {
  const int file = open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(size)) == 0) return file;
  const std::string why = std::strerror(errno);
  if (file >= 0) close(file);
  throw zonemodel::BadInput(
      "cannot make a file of " + std::to_string(size) + " B in " + folder + ": " + why,
      "use another folder");
}

}  // namespace

Contents::Contents(const std::string& folder, Bytes size, Bytes used) : size_(size) {
  CheckRoom(folder, used);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!folder.empty()) {
    file_ = OpenSparse(folder, size);
    flags = MAP_SHARED | MAP_NORESERVE;
  }
  void* const begin = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (begin == MAP_FAILED) {
    if (file_ >= 0) close(file_);
    throw zonemodel::BadInput("cannot map " + std::to_string(size) + " B: " + std::strerror(errno),
                              "use a smaller size");
  }
  begin_ = static_cast<char*>(begin);
}

Contents::~Contents() {
  munmap(begin_, size_);
  if (file_ >= 0) close(file_);
}

bool Contents::Discard(Bytes offset, Bytes bytes) const {
  if (file_ >= 0) {
    return fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) == 0;
  }
  // Only whole pages can be freed.
  const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  const Bytes end = offset + bytes;
  const Bytes first = std::min(end, (offset + page - 1) / page * page);
  const Bytes last = std::max(first, end / page * page);
  std::fill(At(offset), At(first), 0);
  std::fill(At(last), At(end), 0);
  return first == last || madvise(At(first), last - first, MADV_DONTNEED) == 0;
}

}  // namespace zoneblk
