#include "replay/requests.h"

#include <algorithm>
#include <variant>

namespace zlfs::replay {

using Kind = DeviceRequest::Kind;

void Requests::Started(const Model& model) {
  zones_ = model.allocator().zones();
  block_ = model.block_size();
  metadata_copies_ = model.metadata_copies();
  ordered_.assign(zones_.size(), 0);
  reads_.assign(zones_.size(), 0);
  requests_.clear();
  threads_.clear();
}

Requests::Thread* Requests::ThreadOf(std::uint32_t number) {
  const auto [entry, added] = threads_.try_emplace(number);
  if (added) {
    entry->second.requests = requests_.size();
    requests_.emplace_back();
  }
  return &entry->second;
}

void Requests::Comes(const Model& model, const Event& event, const Stamp& stamp) {
  current_ = stamp.thread;
  recorded_ = stamp.time;
  Thread* const thread = ThreadOf(stamp.thread);
  Take(thread, event, stamp.time);
  thread->last = stamp.time;
  if (const auto* const sync = std::get_if<SyncEvent>(&event)) {
    TakeSync(thread, *sync, stamp.time);
  } else if (const auto* const read = std::get_if<ReadEvent>(&event)) {
    TakeRead(model, *read);
  }
}

// A thread thinks before it sends a request. It does not think during a write, a finish, a reset or
// a commit, and not while it waits for space or collects garbage.
void Requests::Take(Thread* thread, const Event& event, std::uint64_t time) {
  const auto gap = static_cast<std::int64_t>(time - thread->last);
  if (const auto* const ask = std::get_if<AskEvent>(&event)) {
    if (static_cast<Cause>(ask->cause) == Cause::kGc) return;
    if (!thread->waits) thread->thinks += gap;
    thread->waits = static_cast<Decision::Kind>(ask->decision) != Decision::Kind::kGrant;
    writers_[ask->subject] = current_;
    causes_[ask->subject] = ask->cause;
  } else if (const auto* const step = std::get_if<StepEvent>(&event)) {
    const auto what = static_cast<Step>(step->step);
    if (what == Step::kLeft || what == Step::kDeleted || what == Step::kGone) {
      thread->thinks += gap;
    }
  } else if (const auto* const sync = std::get_if<SyncEvent>(&event)) {
    thread->thinks += std::max<std::int64_t>(0, gap - static_cast<std::int64_t>(sync->took));
  } else if (const auto* const read = std::get_if<ReadEvent>(&event)) {
    // The reads may have ended before the thread's last event.
    thread->thinks += gap - static_cast<std::int64_t>(read->took);
  }
}

void Requests::TakeSync(Thread* thread, const SyncEvent& sync, std::uint64_t time) {
  std::vector<DeviceRequest>& requests = requests_[thread->requests];
  const std::uint64_t begin = time - std::min(time, sync.took);
  std::size_t first = requests.size();
  while (first > 0 && requests[first - 1].at >= begin &&
         requests[first - 1].kind != Kind::kSynced) {
    --first;
  }
  // Here all copies go to one zone, although each copy has zones of its own.
  for (std::uint32_t copy = 0; sync.log != 0 && copy < metadata_copies_; ++copy) {
    Add(thread, {.kind = Kind::kCommit, .bytes = block_});
  }
  Add(thread, {.kind = Kind::kFlush});
  requests[first].begins_sync = true;
  const auto cause = causes_.find(sync.file);
  const auto names = static_cast<std::uint8_t>(Cause::kMetadata);
  Add(thread, {.kind = Kind::kSynced, .cause = cause == causes_.end() ? names : cause->second});
}

void Requests::TakeRead(const Model& model, const ReadEvent& read) {
  const auto file = model.files().find(read.file);
  if (file == model.files().end()) return;
  const std::uint64_t each = (read.bytes + read.requests - 1) / read.requests;
  const std::uint64_t end = std::min(read.offset + read.bytes, file->second->size);
  if (read.offset >= end) return;
  for (const Extent& part : Part(file->second->extents, read.offset, end)) Read(part, each);
}

void Requests::CopyRead(const Extent& content) { Read(content, content.length); }

void Requests::Read(const Extent& content, std::uint64_t each) {
  const std::uint64_t begin = content.offset / block_ * block_;
  const std::uint64_t end = std::min(RoundUp(content.end(), block_), zones_[content.zone].capacity);
  ++reads_[content.zone];
  Add(ThreadOf(current_), {.kind = Kind::kRead,
                           .zone = content.zone,
                           .offset = begin,
                           .bytes = end - begin,
                           .each = RoundUp(each, block_),
                           .before = ordered_[content.zone]});
}

void Requests::Wrote(const AskEvent& ask, const Extent& blocks) {
  const auto writer = writers_.find(ask.subject);
  const bool copy = static_cast<Cause>(ask.cause) == Cause::kGc;
  AddOrdered(ThreadOf(copy || writer == writers_.end() ? current_ : writer->second),
             {.kind = Kind::kWrite,
              .cause = ask.cause,
              .zone = blocks.zone,
              .offset = blocks.offset,
              .bytes = blocks.length});
}

void Requests::Finished(std::uint32_t zone) {
  AddOrdered(ThreadOf(current_), {.kind = Kind::kFinish, .zone = zone});
}

void Requests::Reset(std::uint32_t zone) {
  AddOrdered(ThreadOf(current_),
             {.kind = Kind::kReset, .zone = zone, .reads_before = reads_[zone]});
}

void Requests::Flushed() { Add(ThreadOf(current_), {.kind = Kind::kFlush}); }

void Requests::AddOrdered(Thread* thread, DeviceRequest request) {
  request.before = ordered_[request.zone]++;
  Add(thread, request);
}

void Requests::Add(Thread* thread, DeviceRequest request) {
  request.thinks = static_cast<std::uint64_t>(std::max<std::int64_t>(0, thread->thinks));
  request.at = recorded_;
  thread->thinks = std::min<std::int64_t>(0, thread->thinks);
  requests_[thread->requests].push_back(request);
}

}  // namespace zlfs::replay
