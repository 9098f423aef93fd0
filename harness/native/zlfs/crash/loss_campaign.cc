#include "zlfs/crash/loss_campaign.h"

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <vector>

#include "zlfs/crash/child.h"
#include "zlfs/crash/policies.h"
#include "zlfs/crash/session.h"
#include "zlfs/crash/time_limit.h"
#include "zlfs/crash/trace.h"
#include "zlfs/format/superblock.h"
#include "zlfs/fs/volume.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/open.h"

namespace zlfs::crash {
namespace {

using rocksdb::Status;

constexpr int kMostFailures = 5;
constexpr std::uint64_t kLastOperations = 400;  // per writer in the last process

class Campaign {
 public:
  explicit Campaign(const LossCampaign& setup)
      : setup_(setup),
        trace_path_(setup.trace.empty() ? setup.folder + "/trace" : setup.trace),
        progress_(ShareProgress()),
        slots_(setup.jobs) {}

  int Run() {
    if (setup_.trace.empty() && !RecordAll()) return 1;
    if (!Report(trace_.Load(trace_path_), "trace")) return 1;
    if (!ReplayAll()) return 1;
    std::printf("loss: %" PRIu64 " losses of power, after each of %" PRIu64 " writes and %" PRIu64
                " zone commands, %" PRIu64
                " of them torn, 0 synced keys lost, 0 violations; %" PRIu64 " finishes, %" PRIu64
                " resets, %" PRIu64 " bytes collected in the last life; seed %" PRIu64 "\n",
                losses_, writes_, others_, torn_, finishes_, resets_, progress_->collected.load(),
                setup_.shape.seed);
    return 0;
  }

 private:
  static bool Report(const IOStatus& status, const char* what) {
    if (!status.ok()) std::fprintf(stderr, "loss: %s: %s\n", what, status.ToString().c_str());
    return status.ok();
  }

  // Runs processes that end with a kill, until the trace has enough writes.
  bool RecordAll() {
    const std::string image = setup_.folder + "/recorded";
    const Place blank{.device = "file:" + image + "?" + setup_.device, .aux = "", .identity = ""};
    const Place place{
        .device = "file:" + image, .aux = setup_.folder + "/recorded.aux", .identity = ""};
    std::mt19937_64 random(setup_.shape.seed);
    const Policy policy = RandomPolicy([&random](std::uint64_t n) { return random() % n; });
    // mkfs is a part of the trace.
    {
      std::unique_ptr<ZonedDevice> device;
      if (!Report(OpenPlace(blank, &device), "image")) return false;
      std::unique_ptr<Recorder> recorder;
      if (!Report(Recorder::Open(trace_path_, kUntilKilled, progress_, &recorder), "trace")) {
        return false;
      }
      TappedDevice tapped(std::move(device), RecordTo(recorder.get()));
      if (!Report(Mkfs(&tapped, policy, ""), "mkfs")) return false;
    }
    while (progress_->writes < setup_.writes) {
      const std::uint64_t commands = 1 + random() % (2 * setup_.commands_per_life);
      if (!RecordLife(place, kUntilKilled, commands, "killed")) return false;
    }
    // The last process ends cleanly and reports its garbage collection.
    if (!RecordLife(place, kLastOperations, kUntilKilled, "")) return false;
    CountCollected(place.aux, progress_);
    return true;
  }

  bool RecordLife(const Place& place, std::uint64_t operations, std::uint64_t commands,
                  const std::string& wanted_end) {
    const pid_t child = Fork("recorded load", [&]() -> Status {
      std::unique_ptr<ZonedDevice> device;
      IOStatus status = OpenPlace(place, &device);
      if (!status.ok()) return status;
      std::unique_ptr<Recorder> recorder;
      status = Recorder::Open(trace_path_, commands, progress_, &recorder);
      if (!status.ok()) return status;
      return RunLoad(std::move(device), place.aux, setup_.shape, operations,
                     RecordTo(recorder.get()), progress_);
    });
    const std::string end = Wait(child);
    if (end != wanted_end) std::fprintf(stderr, "loss: the recorded load: %s\n", end.c_str());
    return end == wanted_end;
  }

  TappedDevice::Tap RecordTo(Recorder* recorder) {
    return [this, recorder](ZonedDevice* inner, const Command& command) {
      if (command.kind == CommandKind::kWrite) ++progress_->writes;
      return recorder->Record(inner, command);
    };
  }

  bool ReplayAll() {
    const std::string spec = "mem:" + name_ + "?cache=volatile&" + setup_.device;
    std::unique_ptr<ZonedDevice> device;
    if (!Report(OpenDevice(spec, Access::kReadWrite, nullptr, &device), "device")) return false;
    device_.reset(dynamic_cast<EmulatedDevice*>(device.release()));
    // The first command of mkfs writes the superblock.
    Superblock superblock;
    if (!Report(DecodeSuperblock(trace_.data(0), &superblock), "trace")) return false;
    identity_ = superblock.identity();
    bool formatted = false;
    const TimeLimit limit(setup_.seconds);
    for (std::size_t i = 0; i < trace_.size() && failures_ < kMostFailures && !limit.Over(); ++i) {
      const TraceEntry& entry = trace_.entry(i);
      if (!Report(trace_.Replay(i, device_.get()), "replay")) return false;
      // Before mkfs has ended there is no file system to test. mkfs resets nothing, so the first
      // reset of the first mount shows its end.
      formatted |= entry.kind == CommandKind::kReset;
      resets_ += entry.kind == CommandKind::kReset ? 1 : 0;
      finishes_ += entry.kind == CommandKind::kFinish ? 1 : 0;
      // After a flush the cache is empty, so nothing can be lost.
      if (entry.kind == CommandKind::kFlush) continue;
      if (i % setup_.stride != 0) continue;
      if (!formatted || i < setup_.first || i > setup_.last) continue;
      (entry.kind == CommandKind::kWrite ? writes_ : others_) += 1;
      // These operations were acknowledged before the next command was issued.
      const auto& synced = trace_.entry(std::min(i + 1, trace_.size() - 1)).synced;
      LoseAll(i, synced);
      if ((i + 1) % 500 == 0) {
        std::fprintf(stderr, "loss: %zu of %zu commands, %" PRIu64 " losses\n", i + 1,
                     trace_.size(), losses_);
      }
    }
    while (!running_.empty()) Reap();
    return failures_ == 0;
  }

  // Tests losses of the cache after command i: the whole loss and the tears.
  void LoseAll(std::size_t i, const std::array<std::uint64_t, kMaxWriters>& synced) {
    const std::vector<CachedWrite> cached = EmulatedFaults::Cached(*device_);
    Lose(i, synced, "whole", {});
    if (cached.empty()) return;  // a tear would lose the same data
    std::mt19937_64 random(setup_.shape.seed * 1000003 + i);
    for (std::uint32_t tear = 0; tear < setup_.tears; ++tear) {
      std::vector<std::uint64_t> kept;
      // Either keeps the writes in order up to a torn write, or tears each write independently.
      const bool in_order = tear % 2 == 0;
      const std::size_t torn = random() % cached.size();
      for (std::size_t k = 0; k < cached.size(); ++k) {
        const std::uint64_t part = random() % (cached[k].blocks + 1);
        const bool whole = in_order ? k < torn : random() % 2 == 0;
        kept.push_back(whole ? cached[k].blocks : in_order && k > torn ? 0 : part);
      }
      Lose(i, synced, in_order ? "torn" : "torn out of order", kept);
      ++torn_;
    }
  }

  void Lose(std::size_t i, const std::array<std::uint64_t, kMaxWriters>& synced, const char* how,
            const std::vector<std::uint64_t>& kept) {
    if (running_.size() == slots_.size()) Reap();
    std::size_t slot = 0;
    while (slots_[slot]) ++slot;
    slots_[slot] = true;
    ++losses_;
    const std::string name = std::string(how) + " after command " + std::to_string(i);
    const pid_t child = Fork(name, [&] {
      // The child's memory holds its own copy of the device, so it can change it.
      EmulatedFaults::PowerLoss(*device_, kept);
      device_.reset();
      Progress progress{};
      for (std::uint32_t w = 0; w < kMaxWriters; ++w) progress.synced[w] = synced[w];
      const Place place{.device = "mem:" + name_,
                        .aux = setup_.folder + "/aux." + std::to_string(slot),
                        .identity = identity_};
      const bool often = losses_ % 8 == 0;
      return Judge(place, setup_.shape, {.operations = often ? 20U : 1U, .twice = often},
                   &progress);
    });
    running_[child] = {.slot = slot, .command = i, .name = name};
  }

  void Reap() {
    int status = 0;
    const auto done = running_.find(wait(&status));
    if (done == running_.end()) return;
    const std::string end = EndOf(status);
    if (!end.empty()) {
      ++failures_;
      std::fprintf(stderr,
                   "loss: FAILED, %s: %s\n"
                   "again: zlfs-torture loss --trace=%s --seed=%" PRIu64
                   " --first=%zu --last=%zu --tears=%u\n",
                   done->second.name.c_str(), end.c_str(), trace_path_.c_str(), setup_.shape.seed,
                   done->second.command, done->second.command, setup_.tears);
    }
    slots_[done->second.slot] = false;
    running_.erase(done);
  }

  struct Running {
    std::size_t slot = 0;
    std::size_t command = 0;
    std::string name;
  };

  const LossCampaign setup_;
  const std::string trace_path_;
  const std::string name_ = "replayed";
  std::string identity_;  // identity of the recorded device
  Progress* const progress_;
  Trace trace_;
  std::unique_ptr<EmulatedDevice> device_;
  std::vector<bool> slots_;  // auxiliary directories in use
  std::map<pid_t, Running> running_;
  std::uint64_t losses_ = 0;
  std::uint64_t torn_ = 0;
  std::uint64_t writes_ = 0;  // writes after which the power was lost
  std::uint64_t others_ = 0;
  std::uint64_t finishes_ = 0;
  std::uint64_t resets_ = 0;
  int failures_ = 0;
};

}  // namespace

int RunLossCampaign(const LossCampaign& campaign) { return Campaign(campaign).Run(); }

}  // namespace zlfs::crash
