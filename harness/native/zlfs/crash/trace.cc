#include "zlfs/crash/trace.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "zlfs/zoned/buffer.h"

namespace zlfs::crash {

IOStatus Recorder::Open(const std::string& path, std::uint64_t commands, Progress* progress,
                        std::unique_ptr<Recorder>* recorder) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return IOStatus::IOError(path, std::strerror(errno));
  recorder->reset(new Recorder(fd, commands, progress));
  return IOStatus::OK();
}

Recorder::~Recorder() { close(fd_); }

IOStatus Recorder::Record(ZonedDevice* inner, const Command& command) {
  const std::lock_guard lock(mutex_);
  if (recorded_++ == commands_) raise(SIGKILL);
  TraceEntry entry;
  // The padding is also written to the file, so it must be zero.
  std::memset(static_cast<void*>(&entry), 0, sizeof(entry));
  entry.kind = command.kind;
  entry.zone = command.zone;
  entry.offset = command.offset;
  entry.size = command.content.size();
  for (std::uint32_t i = 0; i < kMaxWriters; ++i) entry.synced[i] = progress_->synced[i];
  std::string bytes(reinterpret_cast<const char*>(&entry), sizeof(entry));
  bytes.append(command.content.data(), command.content.size());
  if (write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    return IOStatus::IOError("trace", std::strerror(errno));
  }
  return Execute(inner, command);
}

IOStatus Trace::Load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TraceEntry entry;
  while (file.read(reinterpret_cast<char*>(&entry), sizeof(entry))) {
    std::string data(entry.size, '\0');
    if (!file.read(data.data(), static_cast<std::streamsize>(data.size()))) {
      return IOStatus::Corruption("trace cut short", path);
    }
    entries_.push_back(entry);
    data_.push_back(std::move(data));
  }
  return entries_.empty() ? IOStatus::Corruption("no trace", path) : IOStatus::OK();
}

IOStatus Trace::Replay(std::size_t i, ZonedDevice* device) const {
  const TraceEntry& entry = entries_[i];
  const AlignedBuffer buffer = AllocateAligned(std::max<std::size_t>(entry.size, 1));
  std::memcpy(buffer.get(), data_[i].data(), entry.size);
  return Execute(device, {.kind = entry.kind,
                          .zone = entry.zone,
                          .offset = entry.offset,
                          .content = Slice(buffer.get(), entry.size)});
}

}  // namespace zlfs::crash
