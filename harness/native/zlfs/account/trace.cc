#include "zlfs/account/trace.h"

#include <cerrno>
#include <cstring>

namespace zlfs {

constexpr std::size_t kChunkBytes = 64 << 10;

IOStatus AllocationTrace::Open(const std::string& path) {
  file_.open(path, std::ios::app | std::ios::binary);
  return on() ? IOStatus::OK() : IOStatus::IOError("trace", path + ": " + std::strerror(errno));
}

void AllocationTrace::Add(const Event& event) {
  if (!on()) return;
  AppendEvent(event, &chunk_);
  if (chunk_.size() >= kChunkBytes) WriteChunk();
}

void AllocationTrace::End(const std::string& ledger) {
  Add(CloseEvent{ledger});
  WriteChunk();
  file_.close();
}

void AllocationTrace::WriteChunk() {
  if (chunk_.size() == kHeaderSize) return;
  const SealedHeader header{.magic = kTraceMagic,
                            .size = static_cast<std::uint32_t>(chunk_.size() - kHeaderSize),
                            .generation = kTraceVersion,
                            .number = ++number_,
                            .previous = previous_};
  previous_ = Seal(header, chunk_.data(), chunk_.size());
  file_.write(chunk_.data(), static_cast<std::streamsize>(chunk_.size())).flush();
  chunk_.resize(kHeaderSize);
}

}  // namespace zlfs
