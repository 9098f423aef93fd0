// zlfs-torture: tests that a database on zlfs keeps acknowledged data after a crash at any time.
//
// Exit status: 0 no data lost, 1 failure, 2 usage error.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "zlfs/crash/child.h"
#include "zlfs/crash/kill_campaign.h"
#include "zlfs/crash/loss_campaign.h"
#include "zlfs/crash/schedule.h"
#include "zlfs/crash/session.h"
#include "zlfs/crash/time_limit.h"

namespace zlfs::crash {
namespace {

// A folder for this process. The destructor removes it, unless a campaign failed.
class Folder {
 public:
  explicit Folder(const std::string& parent)
      : path_(parent + "/zlfs-torture." + std::to_string(getpid())) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (!kept_) std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }
  int KeepUnlessOk(int code) {
    kept_ = code != 0;
    return code;
  }

 private:
  const std::string path_;
  bool kept_ = false;
};

// Prints the counts of durable operations to stdout ten times a second. The reader can cut the
// power after any line.
[[noreturn]] void PrintForever(const LoadShape& shape, const Progress* progress) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::string line;
    for (std::uint32_t writer = 0; writer < shape.writers; ++writer) {
      line += (writer == 0 ? "" : ",") + std::to_string(progress->synced[writer].load());
    }
    std::puts(line.c_str());
    std::fflush(stdout);
  }
}

int Write(const Place& place, const LoadShape& shape, Progress* progress) {
  std::unique_ptr<ZonedDevice> device;
  rocksdb::Status status = OpenPlace(place, &device);
  if (status.ok()) {
    std::thread([&] { PrintForever(shape, progress); }).detach();
    status =
        RunLoad(std::move(device), place.aux, shape, kUntilKilled, Counting(progress), progress);
  }
  std::fprintf(stderr, "zlfs-torture: %s\n", status.ToString().c_str());
  std::fflush(nullptr);
  _exit(1);  // the load ends only with an error, and the other thread never ends
}

int JudgeOnce(const Place& place, const LoadShape& shape, Progress* progress) {
  const rocksdb::Status status = Judge(place, shape, {.operations = 100, .twice = true}, progress);
  std::fprintf(stderr, "zlfs-torture: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

struct FaultCampaign {
  std::uint64_t first = 1;
  std::uint64_t schedules = 5000;
  std::uint64_t seconds = 0;  // 0: no limit
};

// Runs random schedules until one fails.
int RunFaultCampaign(const FaultCampaign& campaign) {
  const TimeLimit limit(campaign.seconds);
  ScheduleCounts counts;
  std::uint64_t seed = campaign.first;
  for (; seed < campaign.first + campaign.schedules; ++seed) {
    if (limit.Over()) break;
    const std::string problem = RunSchedule(seed, &counts);
    if (!problem.empty()) {
      std::fprintf(stderr,
                   "faults: FAILED, schedule %llu: %s\n"
                   "again: zlfs-torture faults --first=%llu --schedules=1\n",
                   static_cast<unsigned long long>(seed), problem.c_str(),
                   static_cast<unsigned long long>(seed));
      return 1;
    }
    if (counts.schedules % 1000 == 0) {
      std::fprintf(stderr, "faults: %llu of %llu schedules\n",
                   static_cast<unsigned long long>(counts.schedules),
                   static_cast<unsigned long long>(campaign.schedules));
    }
  }
  std::printf(
      "faults: seeds %llu to %llu: %llu mounts, %llu failed commands, %llu failed zones, "
      "%llu kills, %llu losses of power, %llu reads beside them; %llu losses named, 0 unnamed; "
      "%llu mounts read-only, %llu volumes repaired, %llu without a newest generation\n",
      static_cast<unsigned long long>(campaign.first), static_cast<unsigned long long>(seed - 1),
      static_cast<unsigned long long>(counts.mounts),
      static_cast<unsigned long long>(counts.faults), static_cast<unsigned long long>(counts.zones),
      static_cast<unsigned long long>(counts.kills), static_cast<unsigned long long>(counts.losses),
      static_cast<unsigned long long>(counts.reads), static_cast<unsigned long long>(counts.named),
      static_cast<unsigned long long>(counts.read_only),
      static_cast<unsigned long long>(counts.repaired),
      static_cast<unsigned long long>(counts.lost));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Tests whether a database on zlfs keeps acknowledged data after a crash at any time.");
  app.require_subcommand(1);
  LoadShape shape;
  Place place;
  std::string folder = "/dev/shm";
  std::vector<std::uint64_t> synced;
  app.add_option("--seed", shape.seed, "of the load and of the crashes");
  app.add_option("--keys", shape.keys, "of each writer in each column family");
  app.fallthrough();

  CLI::App* const write = app.add_subcommand(
      "write", "run the load until killed; prints the operations of each writer that are durable");
  CLI::App* const judge = app.add_subcommand("judge", "check the database after a crash");
  for (CLI::App* const command : {write, judge}) {
    command->add_option("--device", place.device, "dev:NAME, or file:PATH")->required();
    command->add_option("--aux", place.aux, "auxiliary directory")->required();
    command->add_option("--synced", synced, "operations of each writer that are durable")
        ->delimiter(',');
  }

  KillCampaign killing;
  CLI::App* const kill = app.add_subcommand("kill", "campaign: kill -9 at random points");
  kill->add_option("--points", killing.points, "how many");
  LossCampaign losing;
  CLI::App* const loss =
      app.add_subcommand("loss", "campaign: loss of power at every command of a recorded load");
  loss->add_option("--writes", losing.writes, "device writes to record");
  loss->add_option("--tears", losing.tears, "torn losses at each command, besides the whole one");
  loss->add_option("--trace", losing.trace, "an earlier trace instead of a new one");
  loss->add_option("--first", losing.first, "first command to test");
  loss->add_option("--last", losing.last, "last command to test");
  loss->add_option("--stride", losing.stride, "test only every n-th command")
      ->check(CLI::PositiveNumber);
  loss->add_option("--jobs", losing.jobs, "processes at a time")->check(CLI::Range(1, 64));
  FaultCampaign failing;
  CLI::App* const faults = app.add_subcommand(
      "faults", "campaign: random schedules of device failures, kills and losses of power");
  faults->add_option("--first", failing.first, "seed of the first schedule");
  faults->add_option("--schedules", failing.schedules, "how many");
  constexpr const char* kSeconds = "end after this time";
  kill->add_option("--seconds", killing.seconds, kSeconds);
  loss->add_option("--seconds", losing.seconds, kSeconds);
  faults->add_option("--seconds", failing.seconds, kSeconds);
  kill->add_option("--shape", killing.device, "of the device, as in its specification");
  loss->add_option("--shape", losing.device, "of the device, as in its specification");
  for (CLI::App* const command : {kill, loss}) {
    command->add_option("--folder", folder, "for images, on fast storage");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  if (*write || *judge) {
    Progress* const progress = ShareProgress();
    for (std::size_t i = 0; i < std::min<std::size_t>(synced.size(), kMaxWriters); ++i) {
      progress->synced[i] = synced[i];
    }
    return *write ? Write(place, shape, progress) : JudgeOnce(place, shape, progress);
  }
  if (*faults) return RunFaultCampaign(failing);
  Folder work(folder);
  killing.shape = losing.shape = shape;
  killing.folder = losing.folder = work.path();
  return work.KeepUnlessOk(*kill ? RunKillCampaign(killing) : RunLossCampaign(losing));
}

}  // namespace
}  // namespace zlfs::crash

int main(int argc, char** argv) { return zlfs::crash::Main(argc, argv); }
