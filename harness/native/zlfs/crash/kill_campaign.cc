#include "zlfs/crash/kill_campaign.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <thread>

#include "zlfs/crash/child.h"
#include "zlfs/crash/policies.h"
#include "zlfs/crash/session.h"
#include "zlfs/crash/time_limit.h"

namespace zlfs::crash {
namespace {

using rocksdb::Status;

// Limits of the random number of commands before a kill. Mount and opening of the database take
// about 40 commands.
constexpr std::uint32_t kMostCommands = 1500;
constexpr std::uint32_t kRecoveryCommands = 40;
constexpr std::uint32_t kMostMilliseconds = 400;

// Kills this process at the n-th command, before or after the command takes effect.
TappedDevice::Tap KillingAt(std::uint64_t n, bool before, Progress* progress) {
  // Never freed, because the kill ends the process.
  auto* const commands = new std::atomic<std::uint64_t>(0);
  return [=, count = Counting(progress)](ZonedDevice* inner, const Command& command) {
    const bool last = ++*commands == n;
    if (last && before) raise(SIGKILL);
    IOStatus status = count(inner, command);
    if (last) raise(SIGKILL);
    return status;
  };
}

class Campaign {
 public:
  explicit Campaign(const KillCampaign& setup)
      : setup_(setup), progress_(ShareProgress()), random_(setup.shape.seed) {}

  int Run() {
    const TimeLimit limit(setup_.seconds);
    std::uint32_t point = 0;
    for (; point < setup_.points && !limit.Over(); ++point) {
      if (point % setup_.points_per_volume == 0 && !NewVolume()) return 1;
      if (!Kill(point) || !Survived(point)) return 1;
      if ((point + 1) % 20 == 0) {
        std::fprintf(stderr, "kill: %u of %u points\n", point + 1, setup_.points);
      }
    }
    std::printf(
        "kill: %u points, %u of them during recovery, 0 acknowledged operations lost, 0 "
        "violations; "
        "%lu operations, %lu of them unsynced at a kill, %lu writes, %lu flushes, %lu finishes, "
        "%lu resets, %lu bytes collected; "
        "seed %lu\n",
        point, in_recovery_, progress_->operations.load(), unsynced_, progress_->writes.load(),
        progress_->flushes.load(), progress_->finishes.load(), progress_->resets.load(),
        progress_->collected.load(), setup_.shape.seed);
    return 0;
  }

 private:
  std::uint32_t Below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  bool NewVolume() {
    std::filesystem::remove(image_);
    std::filesystem::remove_all(place_.aux);
    for (auto& synced : progress_->synced) synced = 0;
    for (auto& acknowledged : progress_->acknowledged) acknowledged = 0;
    Place blank = place_;
    blank.device += "?" + setup_.device;
    const Policy policy = RandomPolicy([this](std::uint32_t n) { return Below(n); });
    const IOStatus status = Format(blank, policy);
    if (!status.ok()) std::fprintf(stderr, "kill: mkfs: %s\n", status.ToString().c_str());
    return status.ok();
  }

  // Kills one process, and sometimes also the next one during its recovery.
  bool Kill(std::uint32_t point) {
    bool killed = KillOne(point, 1 + Below(kMostCommands), Below(2) == 0);
    if (killed && Below(6) == 0) {
      ++in_recovery_;
      killed = KillOne(point, 1 + Below(kRecoveryCommands), false);
    }
    return killed;
  }

  bool KillOne(std::uint32_t point, std::uint32_t commands, bool by_time) {
    const bool before = Below(2) == 0;
    const auto delay = std::chrono::microseconds(Below(kMostMilliseconds * 1000));
    const pid_t child = Fork("writer", [&] {
      std::unique_ptr<ZonedDevice> device;
      const IOStatus status = OpenPlace(place_, &device);
      if (!status.ok()) return Status(status);
      auto tap = by_time ? Counting(progress_) : KillingAt(commands, before, progress_);
      return RunLoad(std::move(device), place_.aux, setup_.shape, kUntilKilled, std::move(tap),
                     progress_);
    });
    if (by_time) {
      std::this_thread::sleep_for(delay);
      kill(child, SIGKILL);
    }
    const std::string end = Wait(child);
    ExpectAcknowledged();
    if (end == "killed") return true;
    return Failed(point, "the writer was to be killed, but: " + (end.empty() ? "it ended" : end));
  }

  // A kill takes no power from the device, so acknowledged operations count as synced.
  void ExpectAcknowledged() {
    for (std::uint32_t i = 0; i < kMaxWriters; ++i) {
      const std::uint64_t acknowledged = progress_->acknowledged[i];
      if (acknowledged <= progress_->synced[i]) continue;
      unsynced_ += acknowledged - progress_->synced[i];
      progress_->synced[i] = acknowledged;
    }
  }

  bool Survived(std::uint32_t point) {
    std::filesystem::copy_file(image_, crashed_, std::filesystem::copy_options::overwrite_existing);
    const std::string aux = crashed_ + ".aux";  // for the command that Failed prints
    std::filesystem::remove_all(aux);
    std::filesystem::copy(place_.aux, aux, std::filesystem::copy_options::recursive);
    crashed_synced_.clear();
    for (const auto& synced : progress_->synced) {
      crashed_synced_ += (crashed_synced_.empty() ? "" : ",") + std::to_string(synced.load());
    }
    const pid_t child = Fork("judge", [this] {
      return Judge(place_, setup_.shape, {.operations = 100, .twice = true}, progress_);
    });
    const std::string end = Wait(child);
    ExpectAcknowledged();
    return end.empty() || Failed(point, "judge: " + end);
  }

  bool Failed(std::uint32_t point, const std::string& what) {
    std::fprintf(stderr, "kill: FAILED at point %u: %s\n", point, what.c_str());
    if (!crashed_synced_.empty()) {
      std::fprintf(stderr,
                   "again: zlfs-torture judge --device=file:%s --aux=%s.aux --seed=%lu --keys=%u "
                   "--synced=%s\n",
                   crashed_.c_str(), crashed_.c_str(), setup_.shape.seed, setup_.shape.keys,
                   crashed_synced_.c_str());
    }
    return false;
  }

  const KillCampaign setup_;
  Progress* const progress_;
  std::mt19937_64 random_;
  const std::string image_ = setup_.folder + "/device";
  const std::string crashed_ = setup_.folder + "/crashed";  // the image after the last crash
  const Place place_{.device = "file:" + image_, .aux = setup_.folder + "/aux", .identity = ""};
  std::string crashed_synced_;
  std::uint32_t in_recovery_ = 0;
  std::uint64_t unsynced_ = 0;  // acknowledged without a sync before a kill
};

}  // namespace

int RunKillCampaign(const KillCampaign& campaign) { return Campaign(campaign).Run(); }

}  // namespace zlfs::crash
