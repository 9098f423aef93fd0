// Tests of replays with times: the contents of traces, and their times on a modelled drive.

#include "replay/timed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "model/tests/small_drive.h"
#include "replay/counterfactual.h"
#include "replay/recorded.h"
#include "replay/tests/recording.h"

namespace zlfs::replay {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint32_t kFirst = kMetadataZones;

zonemodel::Parameters Drive() {
  zonemodel::Json model = zonemodel::SmallDrive();
  model["buffer"]["size"] = "8MiB";
  return zonemodel::ReadParameters(model);
}

// A mount on 20 empty zones of 1 MiB.
class Script {
 public:
  explicit Script(std::uint64_t version = kTraceVersion) {
    mount_.version = version;
    mount_.block_size = 4096;
    mount_.active_budget = 12;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const ZoneUse use = i < kMetadataZones ? ZoneUse::kUnusable : ZoneUse::kEmpty;
      mount_.zones.push_back({.capacity = 1 << 20, .use = static_cast<std::uint8_t>(use)});
    }
  }

  // Adds a write of `size` bytes that starts at `time` and takes 1 ms.
  Script& Write(std::uint32_t thread, std::uint64_t time, std::uint64_t file, std::uint64_t size,
                Cause cause = Cause::kCompaction) {
    Add(thread, time,
        AskEvent{.subject = file,
                 .cause = static_cast<std::uint8_t>(cause),
                 .lifetime = 3,
                 .content = size,
                 .decision = static_cast<std::uint8_t>(Decision::Kind::kGrant),
                 .zone = kFirst,
                 .size = size});
    return Do(thread, time + kMs, Step::kWrote, file, static_cast<std::uint64_t>(cause));
  }
  Script& Do(std::uint32_t thread, std::uint64_t time, Step step, std::uint64_t subject,
             std::uint64_t detail = 0) {
    return Add(thread, time, StepEvent{static_cast<std::uint32_t>(step), subject, detail});
  }
  Script& Add(std::uint32_t thread, std::uint64_t time, const Event& event) {
    mount_.events.push_back(event);
    mount_.stamps.push_back({.time = time, .thread = thread});
    return *this;
  }

  // Makes it a recording in which a second of the drive took `dilation` seconds.
  Script& Dilate(std::uint64_t dilation) {
    ToTimeOfDrive(dilation, &mount_);
    return *this;
  }

  Times Play() const {
    Requests requests;
    Model model(&requests);
    CounterfactualPlayer player(&model);
    EXPECT_FALSE(player.Play(mount_, SettingOf(mount_)));
    Times times;
    EXPECT_OK(TimedPlayer(Drive(), SettingOf(mount_), requests, &times).Play());
    return times;
  }

 private:
  Mount mount_;
};

std::uint64_t Sum(const Times::Command& command) {
  return static_cast<std::uint64_t>(command.latencies.sum());
}
const Times::Command& Appends(const Times& times, Cause cause = Cause::kCompaction) {
  return times.appends[static_cast<std::size_t>(cause)];
}
const Times::Command& Commands(const Times& times, zonemodel::Operation operation) {
  return times.commands[static_cast<std::size_t>(operation)];
}

TEST(Timed, ARequestFollowsTheLastOneByTheThinkingTime) {
  const Times times = Script().Write(1, 2 * kMs, 1, 8192).Write(1, 8 * kMs, 1, 8192).Play();
  EXPECT_EQ(Appends(times).latencies.count(), 2U);
  EXPECT_EQ(Appends(times).bytes, 16384U);
  EXPECT_LT(Appends(times).latencies.max(), kMs);  // not the recorded one
  EXPECT_EQ(times.recorded, 9 * kMs);
  EXPECT_EQ(times.modelled, (2 + 5) * kMs + Sum(Appends(times)));
}

TEST(Timed, RecordedTimesAreThoseOfTheDrive) {
  const auto play = [](std::uint64_t k) {
    Script script;
    script.Write(1, k * 2 * kMs, 1, 8192)
        .Add(1, k * 5 * kMs, SyncEvent{.file = 1, .took = k * kMs})
        .Add(1, k * 9 * kMs, ReadEvent{.file = 1, .bytes = 4096, .requests = 1, .took = k * kMs});
    return script.Dilate(k).Play();
  };
  const Times slow = play(256);
  EXPECT_EQ(slow.recorded, 9 * kMs);
  // The thread thinks for 2, 2 and 3 ms.
  EXPECT_LT(slow.modelled, 9 * kMs);
  EXPECT_GT(slow.modelled, 6 * kMs);
}

TEST(Timed, ThreadsRunSideBySide) {
  const Times times = Script().Write(1, 2 * kMs, 1, 8192).Write(2, 6 * kMs, 2, 8192).Play();
  EXPECT_EQ(times.modelled, 6 * kMs + Sum(Appends(times)) / 2);
}

TEST(Timed, AZoneKeepsItsOrderAndLatenciesExcludeTheWait) {
  // Thread 1 thinks between its writes. In the recording, the write of thread 2 followed the second
  // one.
  Script script;
  script.Write(1, 1 * kMs, 1, 8192, Cause::kOther).Write(1, 20 * kMs, 1, 8192, Cause::kOther);
  script.Do(1, 21 * kMs, Step::kLeft, 1);
  script.Add(2, 2 * kMs, StepEvent{static_cast<std::uint32_t>(Step::kDeleted), 99, 0});
  script.Write(2, 3 * kMs, 2, 8192, Cause::kOther);
  const Times times = script.Play();
  EXPECT_GT(times.turns, 10 * kMs);
  EXPECT_LT(Appends(times, Cause::kOther).latencies.max(), kMs);
}

TEST(Timed, ASyncIncludesItsWritesAndItsCommit) {
  Script script;
  script.Write(1, 2 * kMs, 1, 8192)
      .Add(1, 5 * kMs, SyncEvent{.file = 1, .log = 1, .took = 4 * kMs});
  script.Write(1, 6 * kMs, 1, 8192).Add(1, 9 * kMs, SyncEvent{.file = 1, .took = kMs});
  const Times times = script.Play();
  const Times::Command& syncs = times.syncs[static_cast<std::size_t>(Cause::kCompaction)];
  ASSERT_EQ(syncs.latencies.count(), 2U);
  const std::uint64_t flush = Sum(Commands(times, zonemodel::Operation::kFlush)) / 2;
  const std::uint64_t write = Sum(Commands(times, zonemodel::Operation::kWrite)) / 4;
  EXPECT_EQ(syncs.latencies.min(), flush);  // its write came before it
  EXPECT_GT(syncs.latencies.max(), flush + 2 * write);
  EXPECT_EQ(Commands(times, zonemodel::Operation::kWrite).bytes, 2 * 8192U + 2 * 4096U);
}

TEST(Timed, AResetWaitsForReadsAndSyncsExcludeTheWait) {
  constexpr std::uint64_t kDeleted = 2;
  Script script;
  script.Write(1, 1 * kMs, kDeleted, 1 << 20).Do(1, 2 * kMs, Step::kLeft, kDeleted);
  // The recorded device is slow: 40 ms for a write. Thread 2 reads meanwhile.
  script.Add(1, 3 * kMs,
             AskEvent{.subject = 3,
                      .cause = static_cast<std::uint8_t>(Cause::kCompaction),
                      .lifetime = 3,
                      .content = 8192,
                      .decision = static_cast<std::uint8_t>(Decision::Kind::kGrant),
                      .zone = kFirst,
                      .size = 8192});
  script.Add(2, 30 * kMs, ReadEvent{.file = kDeleted, .bytes = 4096, .requests = 1});
  script.Do(1, 43 * kMs, Step::kWrote, 3, static_cast<std::uint64_t>(Cause::kCompaction));
  script.Do(1, 43 * kMs, Step::kDeleted, kDeleted).Do(1, 43 * kMs, Step::kGone, kDeleted, 1);
  script.Do(1, 44 * kMs, Step::kReclaim, 1, 1);
  script.Add(1, 45 * kMs, SyncEvent{.file = 0, .took = 2 * kMs});
  const Times times = script.Play();
  const Times::Command& resets = Commands(times, zonemodel::Operation::kReset);
  const Times::Command& syncs = times.syncs[static_cast<std::size_t>(Cause::kMetadata)];
  ASSERT_EQ(resets.latencies.count(), 1U);
  ASSERT_EQ(syncs.latencies.count(), 1U);
  EXPECT_GT(times.modelled, 30 * kMs);  // the reset follows the read
  EXPECT_GT(times.turns, 20 * kMs);
  EXPECT_GT(syncs.latencies.max(), resets.latencies.max());
  EXPECT_LT(syncs.latencies.max(), 10 * kMs);
}

TEST(Timed, ACommitWritesEachCopyOfTheMetadataLog) {
  for (const std::uint64_t copies : {1U, 2U}) {
    Script script(copies == 1 ? 4 : kTraceVersion);
    script.Add(1, 3 * kMs, SyncEvent{.file = 0, .log = 1, .took = kMs});
    const Times times = script.Play();
    const Times::Command& writes = Commands(times, zonemodel::Operation::kWrite);
    EXPECT_EQ(writes.latencies.count(), copies);
    EXPECT_EQ(writes.bytes, copies * 4096);
  }
}

TEST(Timed, ReadsFollowTheFileToItsZones) {
  Script script;
  script.Write(1, 2 * kMs, 1, 512 << 10);
  // Sixteen reads of 4 KiB that took 8 of the 10 ms since the write.
  script.Add(1, 13 * kMs, ReadEvent{.file = 1, .bytes = 65536, .requests = 16, .took = 8 * kMs});
  script.Add(1, 14 * kMs, ReadEvent{.file = 77, .bytes = 4096, .requests = 1});  // is gone
  const Times times = script.Play();
  const Times::Command& reads = Commands(times, zonemodel::Operation::kRead);
  EXPECT_EQ(reads.latencies.count(), 16U);
  EXPECT_EQ(reads.bytes, 65536U);
  EXPECT_EQ(times.modelled, (2 + 2) * kMs + Sum(Appends(times)) + Sum(reads));
}

TEST(Timed, AZoneWithAPartialLastUnitIsPlayed) {
  zonemodel::EventQueue events;
  zonemodel::Parameters parameters = Drive();
  parameters.zones->capacity = 100 << 10;  // a unit and a part
  zonemodel::Drive drive(parameters, 1, &events);
  drive.Submit(0, 0, {zonemodel::Operation::kWrite, false, 0, 0, 100 << 10});
  while (!events.empty()) {
    const zonemodel::Event event = events.Take();
    if (event.kind() != zonemodel::EventKind::kDone) drive.Handle(event);
  }
  EXPECT_EQ(drive.zones()->at(0).programmed, 100U << 10);
  EXPECT_EQ(drive.zones()->at(0).state, zonemodel::ZoneState::kFull);
}

class TimedReplay : public ReplayTest {
 protected:
  static nlohmann::json Played(const Mount& mount, const Setting& setting, Totals* totals) {
    Requests requests;
    Model model(totals == nullptr ? nullptr : &requests);
    CounterfactualPlayer player(&model);
    EXPECT_FALSE(player.Play(mount, setting));
    Times times;
    if (totals != nullptr) {
      *totals = model.totals();
      EXPECT_OK(TimedPlayer(Drive(), setting, requests, &times).Play());
    }
    nlohmann::json counts = LedgerCounts(model.totals(), model.collected_zones(),
                                         SpaceOf(model.allocator()), model.retired());
    return {{"counts", counts}, {"times", times.Json()}};
  }
};

TEST_F(TimedReplay, TimesChangeNoCountAndHoldEveryByte) {
  Record({{"finish_remaining_pct", "20"}, {"gc_start_pct", "20"}, {"trace_reads", "all"}},
         [](FileSystem* fs) {
           Load(fs);
           std::mt19937_64 random(1);
           WriteFile(fs, "/read.sst", 50000, &random);
           std::unique_ptr<rocksdb::FSRandomAccessFile> file;
           ASSERT_OK(fs->NewRandomAccessFile("/read.sst", FileOptions(), &file, nullptr));
           std::string buffer(4096, '\0');
           Slice read;
           for (std::uint64_t at = 0; at < 40960; at += 4096) {
             ASSERT_OK(file->Read(at, 4096, IOOptions(), &read, buffer.data(), nullptr));
           }
         });
  Read();
  Setting setting = SettingOf(mounts_[0]);
  setting.zone_capacity = setting.zone_capacity * 3 / 4;
  setting.zones = setting.zones * 4 / 3;
  Totals totals;
  const nlohmann::json timed = Played(mounts_[0], setting, &totals);
  EXPECT_EQ(Played(mounts_[0], setting, nullptr)["counts"], timed["counts"]);
  EXPECT_EQ(Played(mounts_[0], setting, &totals), timed);
  const nlohmann::json& times = timed["times"];
  std::uint64_t bytes = 0;
  for (std::size_t cause = 0; cause < std::size(kCauseNames); ++cause) {
    const Totals::Bytes& written = totals.written[cause];
    const std::string name(kCauseNames[cause]);
    const nlohmann::json append = times["appends"].value(name, nlohmann::json::object());
    EXPECT_EQ(append.value("bytes", 0U), written.payload + written.pad) << name;
    bytes += written.payload + written.pad;
  }
  EXPECT_GE(times["commands"]["write"]["bytes"], bytes);  // and blocks of the metadata log
  EXPECT_EQ(times["commands"]["reset"]["count"], totals.resets_data);
  EXPECT_GT(times["commands"]["finish"]["count"], 0U);
  EXPECT_GE(times["commands"]["read"]["bytes"], 40960U);
  EXPECT_GT(times["syncs"]["compaction"]["count"], 0U);
}

TEST_F(TimedReplay, TheRecordedSettingHasTimesToo) {
  Record({{"finish_remaining_pct", "20"}, {"gc_start_pct", "20"}});
  Read();
  Requests requests;
  Model model(&requests);
  RecordedPlayer player(&model);
  ASSERT_OK(player.Play(mounts_[0]));
  Times times;
  ASSERT_OK(TimedPlayer(Drive(), SettingOf(mounts_[0]), requests, &times).Play());
  const auto gc = static_cast<std::size_t>(Cause::kGc);
  EXPECT_EQ(times.appends[gc].bytes,
            model.totals().written[gc].payload + model.totals().written[gc].pad);
  EXPECT_GT(times.appends[gc].bytes, 0U);
  EXPECT_GE(Commands(times, zonemodel::Operation::kRead).bytes, times.appends[gc].bytes);
}

TEST_F(TimedReplay, StampsAscendAndNameTheThreads) {
  Record({});
  Read();
  const Mount& mount = mounts_[0];
  ASSERT_EQ(mount.stamps.size(), mount.events.size());
  std::set<std::uint32_t> threads;
  for (std::size_t i = 1; i < mount.stamps.size(); ++i) {
    EXPECT_LE(mount.stamps[i - 1].time, mount.stamps[i].time);
    threads.insert(mount.stamps[i].thread);
  }
  EXPECT_GE(threads.size(), kWriters + 1U);
}

std::size_t ReadsIn(const Mount& mount) {
  std::size_t reads = 0;
  for (const Event& event : mount.events) reads += std::holds_alternative<ReadEvent>(event);
  return reads;
}

TEST_F(TimedReplay, OnlyChosenReadsAreRecordedAndNeighboursAreMerged) {
  bool together = false;
  const auto load = [&together](const std::string& thread) {
    return [thread, &together](FileSystem* fs) {
      std::mt19937_64 random(1);
      WriteFile(fs, "/a.sst", 100000, &random);
      std::thread([fs, &thread, &together] {
        pthread_setname_np(pthread_self(), thread.c_str());
        std::unique_ptr<rocksdb::FSRandomAccessFile> file;
        ASSERT_OK(fs->NewRandomAccessFile("/a.sst", FileOptions(), &file, nullptr));
        std::string buffer(4096, '\0');
        Slice read;
        if (together) {
          std::string others(4096, '\0');
          rocksdb::FSReadRequest requests[2];
          for (auto& one : requests) one.len = 4096;
          requests[0].offset = 0;
          requests[1].offset = 40960;
          requests[0].scratch = buffer.data();
          requests[1].scratch = others.data();
          ASSERT_OK(file->MultiRead(requests, 2, IOOptions(), nullptr));
          for (const auto& one : requests) ASSERT_OK(one.status);
          return;
        }
        for (const std::uint64_t at : {0, 4096, 8192, 40960}) {
          ASSERT_OK(file->Read(at, 4096, IOOptions(), &read, buffer.data(), nullptr));
        }
      }).join();
      ASSERT_OK(fs->DeleteFile("/a.sst", IOOptions(), nullptr));
    };
  };
  const auto reads = [&](const char* option, const std::string& thread) {
    std::filesystem::remove(trace_);
    Record({{"trace_reads", option}}, load(thread));
    Read();
    return ReadsIn(mounts_[0]);
  };
  EXPECT_EQ(reads("all", "user"), 2U);
  EXPECT_EQ(reads("compaction", "user"), 0U);
  EXPECT_EQ(reads("compaction", "rocksdb:low"), 2U);
  EXPECT_EQ(reads("none", "rocksdb:low"), 0U);
  together = true;
  EXPECT_EQ(reads("all", "user"), 2U);
  EXPECT_EQ(reads("compaction", "user"), 0U);
  EXPECT_EQ(reads("compaction", "rocksdb:low"), 2U);
}

// A log that is flushed and never synced also has commits: for its name, for zones that its end is
// written to, and at its close if the close writes to a new zone.
TEST_F(TimedReplay, CommitsOfALogThatIsNotSyncedAreRecorded) {
  using Commits = std::pair<int, int>;  // before the close, and at it
  const auto record = [this](std::uint64_t more) {
    std::filesystem::remove(trace_);
    Record({}, [more](FileSystem* fs) {
      std::unique_ptr<rocksdb::FSWritableFile> log;
      ASSERT_OK(fs->NewWritableFile("/1.log", FileOptions(), &log, nullptr));
      for (const std::uint64_t bytes : {std::uint64_t{400}, more}) {
        ASSERT_OK(log->Append(Content(1, 0, bytes), IOOptions(), nullptr));
        ASSERT_OK(log->Flush(IOOptions(), nullptr));
      }
      ASSERT_OK(log->Close(IOOptions(), nullptr));
    });
    Read();
    Commits found = {0, 0};
    bool closed = false;
    for (const Event& event : mounts_[0].events) {
      const auto* const step = std::get_if<StepEvent>(&event);
      closed |= step != nullptr && step->step == static_cast<std::uint32_t>(Step::kLeft);
      const auto* const sync = std::get_if<SyncEvent>(&event);
      if (sync != nullptr && sync->log != 0) ++(closed ? found.second : found.first);
    }
    return found;
  };
  EXPECT_EQ(record(400), Commits(1, 1));
  EXPECT_EQ(record(kTailBytes), Commits(2, 0));
}

TEST_F(TimedReplay, AnUnknownChoiceOfReadsIsRefused) {
  const auto device = MakeDevice(kShape);
  std::unique_ptr<FileSystem> fs;
  const std::shared_ptr<EmulatedDevice> shared(device.get(), [](EmulatedDevice*) {});
  const IOStatus status =
      OpenFileSystem(std::make_unique<HookedDevice>(shared, device->geometry().identity, [] {}),
                     {{"aux", folder_ + "/aux"}, {"trace_reads", "some"}}, &fs);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
}

TEST_F(TimedReplay, AnOlderTraceReplaysAsBefore) {
  Record({{"finish_remaining_pct", "20"}, {"gc_start_pct", "20"}});
  Read();
  const Mount& mount = mounts_[0];
  std::string chunk(kHeaderSize, '\0');
  AppendEvent(MountEvent{mount.block_size,
                         mount.active_budget,
                         {reinterpret_cast<const char*>(&mount.policy), sizeof(Policy)}},
              &chunk);
  for (const ZoneEvent& zone : mount.zones) AppendEvent(zone, &chunk);
  for (const FileEvent& file : mount.files) AppendEvent(file, &chunk);
  for (const Event& event : mount.events) {
    const bool old =
        std::holds_alternative<AskEvent>(event) || std::holds_alternative<StepEvent>(event);
    if (old) AppendEvent(event, &chunk);
  }
  AppendEvent(CloseEvent{mount.ledger}, &chunk);
  Seal({.magic = kTraceMagic,
        .size = static_cast<std::uint32_t>(chunk.size() - kHeaderSize),
        .generation = 2,
        .number = 1},
       chunk.data(), chunk.size());
  const auto bytes = std::filesystem::file_size(trace_);
  EXPECT_LE(bytes, 2 * chunk.size());  // times may double the size
  std::ofstream(trace_, std::ios::binary) << chunk;
  const Mount newer = mount;
  Read();
  EXPECT_EQ(mounts_[0].version, 2U);
  EXPECT_TRUE(mounts_[0].stamps.empty());
  EXPECT_EQ(ReadsIn(mounts_[0]), 0U);
  const Setting setting = SettingOf(newer);
  EXPECT_EQ(Played(mounts_[0], setting, nullptr), Played(newer, setting, nullptr));
  Model model;
  ASSERT_OK(RecordedPlayer(&model).Play(mounts_[0]));
}

}  // namespace
}  // namespace zlfs::replay
