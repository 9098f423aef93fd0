#include "zlfs/account/trace.h"

#include <cerrno>
#include <chrono>
#include <cstring>

namespace zlfs {
namespace {

constexpr std::size_t kChunkBytes = 64 << 10;
// The most bytes of one event. Without joined reads, a compaction that reads single blocks would
// make many events.
constexpr std::uint64_t kMostRead = 1 << 20;

// A number for the calling thread, from 1 on.
std::uint32_t ThisThread() {
  static std::atomic<std::uint32_t> threads = 0;
  thread_local const std::uint32_t number = ++threads;
  return number;
}

}  // namespace

std::uint64_t AllocationTrace::Now() {
  using std::chrono::nanoseconds;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<nanoseconds>(now).count());
}

IOStatus AllocationTrace::Open(const std::string& path, TracedReads reads) {
  const std::lock_guard lock(mutex_);
  file_.open(path, std::ios::app | std::ios::binary);
  if (!file_) return IOStatus::IOError("trace", path + ": " + std::strerror(errno));
  begin_ = Now();
  reads_ = reads;
  on_ = true;
  return IOStatus::OK();
}

void AllocationTrace::Add(const Event& event) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  const auto* const step = std::get_if<StepEvent>(&event);
  if (step != nullptr && step->step == static_cast<std::uint32_t>(Step::kGone)) {
    AppendRead(step->subject);  // its reads come before its end
  }
  Append(event, ThisThread());
}

void AllocationTrace::AddSync(std::uint64_t file, bool log, std::uint64_t begin) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  Append(SyncEvent{.file = file, .log = log, .took = Now() - begin}, ThisThread());
}

void AllocationTrace::AddRead(std::uint64_t file, std::uint64_t offset, std::uint64_t bytes,
                              std::uint64_t begin) {
  if (!on() || bytes == 0) return;
  const std::uint32_t thread = ThisThread();
  const std::lock_guard lock(mutex_);
  const auto continues = [&](const Reading& before) {
    const ReadEvent& event = before.event;
    return before.thread == thread && event.offset + event.bytes == offset &&
           event.bytes + bytes <= kMostRead;
  };
  const auto before = readings_.find(file);
  if (before != readings_.end() && !continues(before->second)) AppendRead(file);
  Reading& reading = readings_[file];
  reading.thread = thread;
  if (reading.event.requests++ == 0) {
    reading.event.file = file;
    reading.event.offset = offset;
  }
  reading.event.bytes += bytes;
  reading.event.took += Now() - begin;
}

void AllocationTrace::End(const std::string& ledger) {
  if (!on()) return;
  const std::lock_guard lock(mutex_);
  while (!readings_.empty()) AppendRead(readings_.begin()->first);
  Append(CloseEvent{ledger}, ThisThread());
  WriteChunk();
  on_ = false;
  file_.close();
}

void AllocationTrace::Append(const Event& event, std::uint32_t thread) {
  AppendEvent(event, &chunk_);
  AppendStamp({.time = Now() - begin_, .thread = thread}, &last_, &chunk_);
  if (chunk_.size() >= kChunkBytes) WriteChunk();
}

void AllocationTrace::AppendRead(std::uint64_t file) {
  const auto reading = readings_.extract(file);
  if (!reading.empty()) Append(reading.mapped().event, reading.mapped().thread);
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
