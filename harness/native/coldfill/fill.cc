#include "coldfill/fill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>

#include "coldfill/block.h"

namespace coldfill {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadSize = 1 << 20;

// Owns a file descriptor.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Words aligned for O_DIRECT.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : words_(static_cast<std::uint64_t*>(std::aligned_alloc(kBlockSize, bytes))),
        size_(bytes / sizeof(std::uint64_t)) {
    if (words_ == nullptr) std::abort();
  }
  [[nodiscard]] std::span<std::uint64_t> words() const { return {words_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  std::unique_ptr<std::uint64_t[], Free> words_;
  std::size_t size_;
};

// Calls the progress function at most once a second.
class Ticker {
 public:
  explicit Ticker(const Progress& progress) : progress_(progress) {}
  void Tick(std::uint64_t bytes) {
    if (Seconds() < next_) return;
    next_ = Seconds() + 1.0;
    progress_(bytes, Seconds());
  }
  [[nodiscard]] double Seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  const Progress& progress_;
  Clock::time_point begin_ = Clock::now();
  double next_ = 1.0;
};

int OpenForWrite(const WriteOptions& options, bool* direct) {
  // O_EXCL: never overwrites a file or a block device.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  const char* path = options.file.c_str();
  if (options.direct) {
    const int fd = ::open(path, kFlags | O_DIRECT, 0600);
    if (fd >= 0 || errno != EINVAL) {
      *direct = fd >= 0;
      return fd;
    }
    ::unlink(path);  // open(2) may create the file even if it rejects O_DIRECT
  }
  *direct = false;
  return ::open(path, kFlags, 0600);
}

// Clears O_DIRECT on an open file. Returns true if it was set and is now cleared.
bool DropDirect(int fd, bool* direct) {
  if (!*direct) return false;
  *direct = false;
  return ::fcntl(fd, F_SETFL, 0) == 0;
}

// Writes `data` at `offset`. Returns the bytes written; if not all are, errno holds the cause.
std::size_t WriteAll(int fd, std::span<const std::byte> data, std::uint64_t offset, bool* direct) {
  std::size_t done = 0;
  while (done < data.size()) {
    const auto rest = data.subspan(done);
    const ssize_t n = ::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(offset + done));
    if (n > 0) {
      done += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && DropDirect(fd, direct)) continue;
    if (n == 0) errno = EIO;
    break;
  }
  return done;
}

void Fail(WriteResult* result, const char* step) {
  if (result->error != 0) return;  // the first failure is the cause
  result->error = errno;
  result->step = step;
}

// The bytes that a full file system really stores. Delayed allocation may fail only at the sync.
std::uint64_t AllocatedBytes(int fd, std::uint64_t written) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  const auto allocated = static_cast<std::uint64_t>(status.st_blocks) * 512;
  return std::min(written, allocated) / kBlockSize * kBlockSize;
}

// Returns nullptr if block `number` is intact and in its place, otherwise a description of the
// fault.
const char* Complaint(ConstBlock block, std::uint64_t number, std::uint64_t seed) {
  const auto header = Check(block);
  if (!header) return "damaged: magic or checksum is wrong";
  if (header->seed != seed) return "written with another seed";
  if (header->number != number) return "belongs to another place";
  return nullptr;
}

// Fills `data` from the file. Returns the bytes read, fewer only at the end of the file, or -1.
ssize_t ReadAll(int fd, std::span<std::byte> data) {
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t n = ::read(fd, data.data() + done, data.size() - done);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

WriteResult Write(const WriteOptions& options, const Progress& progress) {
  Ticker ticker(progress);
  WriteResult result;
  const File file(OpenForWrite(options, &result.direct));
  if (!file.ok()) {
    Fail(&result, "open");
    return result;
  }
  const Buffer buffer(options.block_size);
  const auto data = std::as_bytes(buffer.words());
  Pattern pattern(options.seed, options.bytes / kBlockSize, buffer.words());
  std::uint64_t written = 0;
  while (written < options.bytes) {
    pattern.Stamp(written / kBlockSize);
    const auto size = std::min<std::uint64_t>(data.size(), options.bytes - written);
    const auto n = WriteAll(file.fd(), data.first(size), written, &result.direct);
    written += n;
    if (n < size) {
      Fail(&result, "write");
      break;
    }
    ticker.Tick(written);
  }
  if (::fdatasync(file.fd()) != 0) Fail(&result, "fdatasync");
  // Drop cold data from the page cache before the next measurement. The advice may be ignored.
  (void)::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  result.bytes = result.error == 0 ? written : AllocatedBytes(file.fd(), written);
  result.seconds = ticker.Seconds();
  return result;
}

VerifyResult Verify(const VerifyOptions& options, const Progress& progress) {
  Ticker ticker(progress);
  VerifyResult result;
  const File file(::open(options.file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    result.error = errno;
    return result;
  }
  const Buffer buffer(kReadSize);
  const auto data = std::as_writable_bytes(buffer.words());
  std::optional<std::uint64_t> expected;
  if (options.bytes) expected = *options.bytes / kBlockSize;
  const auto bad = [&](const char* what) {
    result.first_bad_block = result.blocks;
    result.what = what;
    result.seconds = ticker.Seconds();
    return result;
  };
  for (;;) {
    const ssize_t n = ReadAll(file.fd(), data);
    if (n < 0) {
      result.error = errno;
      return result;
    }
    const auto whole = static_cast<std::size_t>(n) / kBlockSize;
    for (std::size_t i = 0; i < whole; ++i) {
      const ConstBlock block = buffer.words().subspan(i * kBlockWords).first<kBlockWords>();
      if (const char* what = Complaint(block, result.blocks, options.seed)) return bad(what);
      if (!expected) expected = Check(block)->total;
      if (result.blocks >= *expected) return bad("is beyond the end of the fill");
      ++result.blocks;
    }
    ticker.Tick(result.blocks * kBlockSize);
    if (static_cast<std::size_t>(n) < data.size()) break;
  }
  if (!expected || result.blocks < *expected) return bad("is missing: the file is cut short");
  result.seconds = ticker.Seconds();
  return result;
}

}  // namespace coldfill
