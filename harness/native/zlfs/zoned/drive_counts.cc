#include "zlfs/zoned/drive_counts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

namespace zlfs {

IOStatus DriveCounts::Open(const std::string& path, std::unique_ptr<DriveCounts>* counts) {
  constexpr std::uint64_t kVersion = 1;
  auto opened = std::make_unique<DriveCounts>();
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return MakeSystemError(errno, path);
  // ftruncate extends a new file, or one that is too short, with zeros.
  void* base = MAP_FAILED;
  if (ftruncate(fd, sizeof(Words)) == 0) {
    base = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  close(fd);
  if (base == MAP_FAILED) return MakeSystemError(error, path);
  opened->words_ = static_cast<Word*>(base);
  opened->words_[0] = kVersion;
  const std::string zones = path + ".zones";
  opened->zones_ = open(zones.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (opened->zones_ < 0) return MakeSystemError(errno, zones);
  *counts = std::move(opened);
  return IOStatus::OK();
}

DriveCounts::~DriveCounts() {
  if (words_ != own_.data()) munmap(words_, sizeof(Words));
  if (zones_ >= 0) close(zones_);
}

void DriveCounts::NoteZone(std::uint32_t zone, std::string_view action, std::uint64_t nanoseconds,
                           std::uint64_t written) {
  if (zones_ < 0) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::ostringstream text;
  text << now << ' ' << zone << ' ' << action << ' ' << nanoseconds << ' ' << written << '\n';
  const std::string line = text.str();
  // One call appends the whole line, also beside other processes. A reader notices a lost line:
  // the numbers of finishes and resets are counted as well.
  if (write(zones_, line.data(), line.size()) < 0) return;
}

}  // namespace zlfs
