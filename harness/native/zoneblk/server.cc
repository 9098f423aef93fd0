#include "zoneblk/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <system_error>

#include "zoneblk/control.h"

namespace zoneblk {
namespace {

constexpr unsigned kSectorShift = 9;
// These identify completions that do not belong to a tag.
constexpr std::uint64_t kSocket = std::uint64_t{1} << 32;
constexpr std::uint64_t kSignal = kSocket + 1;

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::optional<Op> OpOf(std::uint32_t op_flags) {
  switch (op_flags & 0xff) {
    case abi::kRead:
      return Op::kRead;
    case abi::kWrite:
      return Op::kWrite;
    case abi::kZoneAppend:
      return Op::kAppend;
    case abi::kFlush:
      return Op::kFlush;
    case abi::kDiscard:
      return Op::kDiscard;
    case abi::kReportZones:
      return Op::kReport;
    case abi::kZoneOpen:
      return Op::kOpen;
    case abi::kZoneClose:
      return Op::kClose;
    case abi::kZoneFinish:
      return Op::kFinish;
    case abi::kZoneReset:
      return Op::kReset;
    case abi::kZoneResetAll:
      return Op::kResetAll;
    default:
      return std::nullopt;
  }
}

Request RequestOf(Op op, const abi::Description& description) {
  const bool data = op == Op::kRead || op == Op::kWrite || op == Op::kAppend || op == Op::kDiscard;
  return {.op = op,
          .offset = description.sector << kSectorShift,
          .bytes = data ? Bytes{description.count} << kSectorShift : 0};
}

off_t DataOf(std::uint32_t tag, Bytes offset) {
  return static_cast<off_t>(abi::kDataOffset + (std::uint64_t{tag} << abi::kTagShift) + offset);
}

// Data moves in pieces, so that a due request waits for at most one piece: about 1 us of the model.
constexpr Bytes kPieceWithoutDilation = Bytes{8} << 10;

// Moves all bytes by `call`, at most `piece` at once; it may move fewer. Calls `between` after each
// piece.
template <typename Call, typename Data, typename Between>
bool All(Call call, int file, Data* data, Bytes bytes, off_t at, Bytes piece, Between between) {
  for (Bytes moved = 0; moved < bytes;) {
    const Bytes part = std::min(piece, bytes - moved);
    const ssize_t more = call(file, data + moved, part, at + static_cast<off_t>(moved));
    if (more <= 0) return false;
    moved += static_cast<Bytes>(more);
    between();
  }
  return true;
}

bool TooLong(const Request& request) {
  return request.op != Op::kDiscard && request.bytes > kMostBytes;
}

}  // namespace

Server::Server(std::uint32_t device, std::uint32_t depth, Disk* disk, const Contents* contents,
               const Lateness& lateness)
    : disk_(disk),
      contents_(contents),
      depth_(depth),
      moving_(depth),
      broken_(depth),
      lateness_(lateness) {
  const std::string name = "/dev/ublkc" + std::to_string(device);
  file_ = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) Fail(errno, name);
  void* const begin = mmap(nullptr, depth * sizeof(abi::Description), PROT_READ,
                           MAP_SHARED | MAP_POPULATE, file_, 0);
  if (begin == MAP_FAILED) {
    const int error = errno;
    close(file_);
    Fail(error, "map " + name);
  }
  descriptions_ = static_cast<const abi::Description*>(begin);
  const int error = io_uring_queue_init(2 * depth + 8, &ring_,
                                        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
  if (error < 0) {
    close(file_);
    Fail(-error, "io_uring");
  }
}

Server::~Server() {
  io_uring_queue_exit(&ring_);
  munmap(const_cast<abi::Description*>(descriptions_), depth_ * sizeof(abi::Description));
  if (signals_ >= 0) close(signals_);
  close(file_);
}

Time Server::Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Time>(now.tv_sec) * zonemodel::kSecond + static_cast<Time>(now.tv_nsec);
}

void Server::Offer() {
  for (std::uint32_t tag = 0; tag < depth_; ++tag) {
    Queue(abi::kFetch,
          {.queue = 0, .tag = static_cast<std::uint16_t>(tag), .result = 0, .append_sector = 0});
  }
  offered_ = depth_;
  if (const int error = io_uring_submit(&ring_); error < 0) Fail(-error, "offer the queue");
}

// The ring has entries for a command of each place and for both polls.
io_uring_sqe* Server::NewEntry() {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) Fail(EBUSY, "io_uring");
  return sqe;
}

void Server::Queue(std::uint32_t operation, const abi::IoCommand& command) {
  io_uring_sqe* const sqe = NewEntry();
  std::memset(sqe, 0, sizeof(*sqe));
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = file_;
  sqe->cmd_op = operation;
  sqe->user_data = command.tag;
  std::memcpy(sqe->cmd, &command, sizeof(command));
}

void Server::Watch(const Socket& socket, const sigset_t& signals) {
  signals_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) Fail(errno, "signalfd");
  WatchFile(socket.file(), kSocket);
  WatchFile(signals_, kSignal);
}

void Server::WatchFile(int file, std::uint64_t name) {
  io_uring_sqe* const sqe = NewEntry();
  io_uring_prep_poll_add(sqe, file, POLLIN);
  sqe->user_data = name;
}

// Completes due requests, waits, and takes new requests. Returns whether to stop.
bool Server::Turn(const Identity& identity, const Socket& socket, const Pace& pace) {
  bool stop = false;
  Complete(pace);
  Wait(pace);
  const Time now = pace.Model(Now());
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const std::uint64_t name = cqe->user_data;
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (name == kSocket) {
      socket.Answer(StatusOf(identity, *disk_, lateness_).dump() + "\n");
      WatchFile(socket.file(), kSocket);
    } else if (name == kSignal) {
      stop = true;
    } else if (result == 0) {
      Arrived(static_cast<std::uint32_t>(name), now);
    } else {
      --offered_;  // the kernel took the place back
    }
  }
  if (!arrived_.empty()) due_ = Due(pace);
  for (const auto& [tag, move] : arrived_) {
    broken_[tag] = !Move(tag, move, pace);
    moving_[tag] = false;
    if (done_.empty()) continue;
    due_ = 0;  // a request may only have waited for this data
    CompleteDue(pace);
  }
  arrived_.clear();
  return stop;
}

// A due request whose data has not moved yet stays for the next call.
void Server::Complete(const Pace& pace) {
  const Time now = Now();
  disk_->Advance(pace.Model(now), &done_);
  const auto later =
      std::ranges::stable_partition(done_, [this](const Done& done) { return !moving_[done.tag]; });
  for (auto done = done_.begin(); done != later.begin(); ++done) {
    lateness_.Record(now - std::min(now, pace.Clock(done->due)),
                     (done->due - done->arrival) * pace.dilation());
    Commit(*done);
  }
  done_.erase(done_.begin(), later.begin());
}

// Returns when the next request is due on the kernel's clock, or kNever.
Time Server::Due(const Pace& pace) const {
  const Time next = disk_->Next();
  return next == zonemodel::kNever ? next : pace.Clock(next);
}

// Completes requests that became due while data moves. New requests wait in the ring until all data
// has moved, so `due_` changes only here.
void Server::CompleteDue(const Pace& pace) {
  if (due_ > Now()) return;
  Complete(pace);
  due_ = Due(pace);
  if (const int error = io_uring_submit(&ring_); error < 0) Fail(-error, "complete a request");
}

void Server::Commit(const Done& done) {
  int result = done.op == Op::kReport ? static_cast<int>(kMostBytes) : static_cast<int>(done.bytes);
  if (done.op == Op::kDiscard) result = 0;  // its size can exceed the field
  if (broken_[done.tag]) result = -EIO;
  if (done.error != 0) result = -done.error;
  broken_[done.tag] = false;
  const bool append = done.op == Op::kAppend && result >= 0;
  Queue(abi::kCommitAndFetch, {.queue = 0,
                               .tag = static_cast<std::uint16_t>(done.tag),
                               .result = result,
                               .append_sector = append ? done.offset >> kSectorShift : 0});
}

void Server::Waited(int result) {
  if (result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN) return;
  Fail(-result, "wait for the kernel");
}

// Submits queued commands, and sleeps until a completion comes or the next request is due.
void Server::Wait(const Pace& pace) {
  const Time due = Due(pace);
  io_uring_cqe* cqe = nullptr;
  if (due == zonemodel::kNever) return Waited(io_uring_submit_and_wait(&ring_, 1));
  const Time now = Now();
  const Time rest = due > now ? due - now : 0;
  __kernel_timespec time{.tv_sec = static_cast<std::int64_t>(rest / zonemodel::kSecond),
                         .tv_nsec = static_cast<long long>(rest % zonemodel::kSecond)};
  Waited(io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &time, nullptr));
}

void Server::Arrived(std::uint32_t tag, Time now) {
  const abi::Description& description = descriptions_[tag];
  const std::optional<Op> op = OpOf(description.op_flags);
  const Request request = op ? RequestOf(*op, description) : Request{};
  if (!op || !disk_->Supports(*op) || TooLong(request)) {
    Commit({.tag = tag,
            .op = Op::kFlush,
            .error = EOPNOTSUPP,
            .bytes = 0,
            .offset = 0,
            .arrival = now,
            .due = now});
    return;
  }
  arrived_.emplace_back(tag, disk_->Submit(now, tag, request));
  moving_[tag] = true;
}

bool Server::Move(std::uint32_t tag, const zoneblk::Move& move, const Pace& pace) {
  static const std::vector<char> kZeros(kMostBytes);
  char* const data = contents_->At(move.offset);
  const Bytes piece = kPieceWithoutDilation * pace.dilation();
  const auto between = [&] { CompleteDue(pace); };
  switch (move.way) {
    case Move::Way::kNone:
      return OpOf(descriptions_[tag].op_flags) != Op::kReport || SendReport(tag);
    case Move::Way::kToContents:
      return All(pread, file_, data, move.bytes, DataOf(tag, 0), piece, between);
    case Move::Way::kFromContents:
      return All(pwrite, file_, data, move.bytes, DataOf(tag, 0), piece, between) &&
             All(pwrite, file_, kZeros.data(), move.zeros, DataOf(tag, move.bytes), piece, between);
    case Move::Way::kDiscard:
      return contents_->Discard(move.offset, move.bytes);
  }
  return false;
}

// The rest of the kernel's buffer, after these zones, is zero.
bool Server::SendReport(std::uint32_t tag) const {
  const abi::Description& description = descriptions_[tag];
  const std::vector<blk_zone> zones =
      disk_->Report(RequestOf(Op::kReport, description).offset, description.count);
  const Bytes bytes = zones.size() * sizeof(blk_zone);
  const auto* const data = reinterpret_cast<const char*>(zones.data());
  return All(pwrite, file_, data, bytes, DataOf(tag, 0), bytes, [] {});
}

}  // namespace zoneblk
