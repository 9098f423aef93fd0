// A mounted volume without RocksDB: content, names, space, refusals and device failures.

#include "zlfs/fs/volume.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/faulty_device.h"
#include "zlfs/tests/volume_rig.h"

namespace zlfs {
namespace {

TEST(Volume, ReadsWhatWasAppendedAlsoBeforeItIsWritten) {
  Rig rig;
  const auto volume = rig.Mount();
  for (const FileKind kind : {FileKind::kData, FileKind::kLog}) {
    const std::string name = kind == FileKind::kLog ? "/x.log" : "/x.sst";
    const auto file =
        Create(volume.get(), name, kind, kind == FileKind::kLog ? LogPlacement() : DataPlacement());
    std::uint64_t size = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::uint64_t n = 1 + i * 97;
      ASSERT_OK(volume->writer().Append(file.get(), Content(1, size, n)));
      size += n;
      if (i % 7 == 0) {
        ASSERT_OK(volume->writer().Sync(file.get()));
      }
      ASSERT_EQ(volume->reader().Size(file.get()), size);
      ASSERT_EQ(ReadWhole(volume.get(), name), Content(1, 0, size));
    }
    std::string part(300, '\0');
    Slice read;
    for (std::uint64_t at = 0; at < size; at += 251) {
      ASSERT_OK(volume->reader().Read(file.get(), at, part.size(), &read, part.data()));
      ASSERT_EQ(read.ToString(), Content(1, at, std::min<std::uint64_t>(300, size - at)));
    }
    ASSERT_OK(volume->reader().Read(file.get(), size + 5, 10, &read, part.data()));
    EXPECT_TRUE(read.empty());
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
  }
}

TEST(Volume, RemembersEverythingAcrossMounts) {
  Rig rig;
  for (std::uint64_t round = 0; round < 5; ++round) {
    const auto volume = rig.Mount();
    for (std::uint64_t before = 0; before < round; ++before) {
      EXPECT_EQ(ReadWhole(volume.get(), "/d/" + std::to_string(before)),
                Content(before, 0, 5000 + before));
    }
    ASSERT_OK(Put(volume.get(), "/d/" + std::to_string(round), Content(round, 0, 5000 + round)));
    ASSERT_OK(volume->Close());
    EXPECT_EQ(Violations(rig.device.get()), "");
  }
}

TEST(Volume, Names) {
  Rig rig;
  const auto volume = rig.Mount();
  for (const char* name : {"/d/a", "/d/b", "/d/e/c", "/dd"}) {
    ASSERT_OK(Put(volume.get(), name, name));
  }
  EXPECT_EQ(volume->files().List("/d"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(volume->files().List("/"), (std::vector<std::string>{"dd"}));
  ASSERT_OK(volume->files().Rename("/d/a", "/d/b"));  // replaces
  EXPECT_EQ(ReadWhole(volume.get(), "/d/b"), "/d/a");
  EXPECT_FALSE(volume->files().Exists("/d/a"));
  volume->files().RenameDirectory("/d", "/new/d");
  EXPECT_EQ(volume->files().List("/new/d"), (std::vector<std::string>{"b"}));
  EXPECT_EQ(ReadWhole(volume.get(), "/new/d/e/c"), "/d/e/c");
  EXPECT_TRUE(volume->files().Exists("/dd"));
  ASSERT_OK(Put(volume.get(), "/other/b", "stays"));
  EXPECT_TRUE(volume->files().RenameDirectory("/other", "/new/d").IsIOError());  // is not empty
  EXPECT_EQ(ReadWhole(volume.get(), "/other/b"), "stays");
  EXPECT_TRUE(volume->files().Delete("/d/b").IsIOError());
  EXPECT_TRUE(volume->files().Rename("/d/b", "/x").IsIOError());
  std::shared_ptr<File> file;
  EXPECT_TRUE(volume->files().Open("/d/b", &file).IsIOError());
  for (const char* bad : {"", "/", "x", "/a//b", "/a/../b", "/a/"}) {
    EXPECT_TRUE(volume->files().Create(bad, FileKind::kData, &file).IsInvalidArgument()) << bad;
  }
}

TEST(Volume, AFileLivesAsLongAsOneOfItsNames) {
  Rig rig;
  const std::string content = Content(3, 0, 200000);
  {
    const auto volume = rig.Mount();
    const std::uint64_t empty = volume->Space().live;
    ASSERT_OK(Put(volume.get(), "/d/a", content));
    const std::uint64_t live = volume->Space().live;
    for (const char* link : {"/d/b", "/0", "/c"}) {
      ASSERT_OK(volume->files().Link("/d/a", link));
    }
    EXPECT_EQ(volume->Space().live, live);
    EXPECT_TRUE(volume->files().Link("/d/a", "/c").IsIOError());  // exists
    EXPECT_TRUE(volume->files().Link("/x", "/y").IsPathNotFound());
    EXPECT_TRUE(volume->files().Link("/c", "/c/").IsInvalidArgument());
    ASSERT_OK(volume->files().Delete("/d/a"));
    ASSERT_OK(volume->files().SyncNames());
    EXPECT_EQ(volume->Space().live, live);
    ASSERT_OK(Put(volume.get(), "/0", "replaces a link"));
    ASSERT_OK(volume->files().Rename("/c", "/d/b"));  // both are the file: nothing happens
    ASSERT_OK(volume->files().Rename("/c", "/d/c"));
    ASSERT_OK(volume->files().RenameDirectory("/d", "/e"));
    EXPECT_GT(live, empty + content.size() - 1);
    ASSERT_OK(volume->Close());
  }
  EXPECT_EQ(Violations(rig.device.get()), "");
  for (int mount = 0; mount < 2; ++mount) {  // from records, then from a snapshot
    const auto volume = rig.Mount();
    EXPECT_EQ(volume->files().List("/"), (std::vector<std::string>{"0"}));
    EXPECT_EQ(volume->files().List("/e"), (std::vector<std::string>{"b", "c"}));
    std::vector<std::string> names;
    for (const FileInfo& file : volume->files().All()) names.push_back(file.name);
    EXPECT_EQ(names, (std::vector<std::string>{"/0", "/e/b", "/e/c"}));
    std::uint64_t count = 0;
    ASSERT_OK(volume->files().CountNames("/e/c", &count));
    EXPECT_EQ(count, 2U);
    bool same = false;
    ASSERT_OK(volume->files().AreOne("/e/b", "/e/c", &same));
    EXPECT_TRUE(same);
    ASSERT_OK(volume->files().AreOne("/e/b", "/0", &same));
    EXPECT_FALSE(same);
    for (const char* name : {"/e/b", "/e/c"}) EXPECT_EQ(ReadWhole(volume.get(), name), content);
    ASSERT_OK(volume->Close());
  }
  const auto volume = rig.Mount();
  ASSERT_OK(volume->files().Delete("/e/b"));
  EXPECT_EQ(ReadWhole(volume.get(), "/e/c"), content);
  ASSERT_OK(volume->files().Delete("/e/c"));
  ASSERT_OK(volume->files().SyncNames());
  EXPECT_LT(volume->Space().live, content.size());
}

// The content moves once, and every name finds it.
TEST(Volume, CollectsTheContentOfLinksOnce) {
  Policy policy;
  policy.gc_start_pct = 90;
  Rig rig(kSmall, policy);
  const auto volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/ballast", Content(1, 0, 6 * 98304)));  // after this, space is low
  // One zone: garbage, then the file.
  ASSERT_OK(Put(volume.get(), "/garbage", Content(1, 0, 12 * 4096)));
  const std::string content = Content(3, 0, 12 * 4096);
  ASSERT_OK(Put(volume.get(), "/a", content));
  ASSERT_OK(volume->files().Link("/a", "/b"));
  const std::uint32_t zone = volume->files().All()[0].extents[0].zone;
  ASSERT_OK(volume->files().Delete("/garbage"));
  ASSERT_OK(volume->files().SyncNames());
  const auto linked = [&] { return volume->files().All()[0].extents; };
  for (int i = 0; i < 50 && linked()[0].zone == zone; ++i) {
    ASSERT_OK(Put(volume.get(), "/x", Content(4, 0, 4096)));
  }
  ASSERT_NE(linked()[0].zone, zone) << "nothing was collected";
  EXPECT_EQ(volume->files().All()[1].extents, linked());
  EXPECT_EQ(volume->totals().written[static_cast<std::size_t>(Cause::kGc)].payload, content.size());
  for (const char* name : {"/a", "/b"}) EXPECT_EQ(ReadWhole(volume.get(), name), content);
}

TEST(Volume, AnOpenFileOutlivesItsName) {
  Rig rig;
  const auto volume = rig.Mount();
  const std::string content = Content(3, 0, 200000);
  ASSERT_OK(Put(volume.get(), "/x", content));
  std::shared_ptr<File> file;
  ASSERT_OK(volume->files().Open("/x", &file));
  ASSERT_OK(volume->files().Delete("/x"));
  ASSERT_OK(volume->files().SyncNames());
  const std::uint64_t live = volume->Space().live;
  EXPECT_GE(live, content.size());
  std::string read(content.size(), '\0');
  Slice part;
  ASSERT_OK(volume->reader().Read(file.get(), 0, read.size(), &part, read.data()));
  EXPECT_EQ(read, content);
  file.reset();
  ASSERT_OK(volume->files().SyncNames());
  EXPECT_LT(volume->Space().live, live);
}

TEST(Volume, ALogSyncCostsOneWriteAndOneFlush) {
  Rig rig;
  const auto volume = rig.Mount();
  const auto file = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(volume->writer().Append(file.get(), "first"));
  ASSERT_OK(volume->writer().Sync(file.get()));
  const Counters before = rig.device->counters();
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(volume->writer().Append(file.get(), "more"));
    ASSERT_OK(volume->writer().Sync(file.get()));
  }
  const Counters after = rig.device->counters();
  EXPECT_EQ(after.writes - before.writes, 5U);
  EXPECT_EQ(after.flushes - before.flushes, 5U);
  ASSERT_OK(volume->writer().FinishWriting(file.get()));
}

// Files of mixed lifetimes at 90 % utilisation, long enough to write the device several times.
class FullVolume
    : public testing::TestWithParam<std::tuple<const char*, std::size_t, OnActiveLimit>> {};

TEST_P(FullVolume, KeepsRunningAndLosesNothing) {
  const auto& [shape, victim, on_limit] = GetParam();
  Policy policy;
  policy.gc_victim = static_cast<std::uint8_t>(victim);
  policy.on_active_limit = on_limit;
  policy.finish_remaining_pct = on_limit == OnActiveLimit::kFinish ? 5 : 0;
  Rig rig(shape, policy);
  auto volume = rig.Mount();
  std::mt19937_64 random(17);
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> files;  // name -> seed, size
  std::uint64_t live = 0;
  std::uint64_t seed = 0;
  const std::uint64_t capacity = volume->Space().capacity;
  const auto put = [&](std::uint64_t size, std::uint8_t lifetime) {
    const std::string name = "/f/" + std::to_string(++seed);
    ASSERT_OK(Put(volume.get(), name, Content(seed, 0, size), DataPlacement(lifetime)));
    files[name] = {seed, size};
    live += size;
  };
  while (live < capacity * 85 / 100) put(20000 + random() % 50000, 5);
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    while (live > capacity * 88 / 100) {
      auto file = files.begin();
      std::advance(file, random() % files.size());
      ASSERT_OK(volume->files().Delete(file->first));
      live -= file->second.second;
      files.erase(file);
    }
    put(1000 + random() % 60000, static_cast<std::uint8_t>(2 + random() % 4));
  }
  const Totals totals = volume->totals();
  EXPECT_GT(totals.written[static_cast<std::size_t>(Cause::kGc)].payload, capacity / 2);
  for (int mount = 0; mount < 2; ++mount) {
    for (const auto& [name, file] : files) {
      ASSERT_EQ(ReadWhole(volume.get(), name), Content(file.first, 0, file.second)) << name;
    }
    ASSERT_OK(volume->Close());
    if (mount == 0) {
      ExpectLedgerIsDevice(volume->totals(), rig.formatted, rig.device->counters());
      volume = rig.Mount();
    }
  }
  EXPECT_EQ(Violations(rig.device.get()), "");
  std::printf("write amplification %.2f\n",
              static_cast<double>(BytesWritten(totals)) /
                  static_cast<double>(
                      totals.written[static_cast<std::size_t>(Cause::kCompaction)].payload));
}

INSTANTIATE_TEST_SUITE_P(
    Policies, FullVolume,
    testing::Combine(testing::Values("zones=200&zone_size=128K&zone_capacity=96K&max_active=8",
                                     "zones=120&zone_size=256K&max_active=14&block_size=512",
                                     "zones=150&zone_size=128K"),
                     testing::Range<std::size_t>(0, std::size(kVictimNames)),
                     testing::Values(OnActiveLimit::kShare, OnActiveLimit::kFinish)));

TEST(Volume, IsFullCleanlyAndOpensAgain) {
  Rig rig;
  auto volume = rig.Mount();
  IOStatus status;
  std::uint64_t count = 0;
  std::uint64_t stored = 0;
  while (status.ok()) {
    ++count;
    status = Put(volume.get(), "/" + std::to_string(count), Content(count, 0, 30000));
    if (status.ok()) ++stored;
  }
  EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
  EXPECT_GT(stored, 70U);
  // The files that a database needs to continue or to reopen still have room.
  ASSERT_OK(Put(volume.get(), "/MANIFEST", "small", {}));
  volume = nullptr;
  EXPECT_EQ(Violations(rig.device.get()), "");
  volume = rig.Mount();
  for (std::uint64_t i = 1; i <= stored; ++i) {
    ASSERT_EQ(ReadWhole(volume.get(), "/" + std::to_string(i)), Content(i, 0, 30000));
  }
  for (std::uint64_t i = 1; i <= stored; i += 2)
    ASSERT_OK(volume->files().Delete("/" + std::to_string(i)));
  ASSERT_OK(Put(volume.get(), "/new", Content(9, 0, 300000)));
  EXPECT_EQ(ReadWhole(volume.get(), "/new"), Content(9, 0, 300000));
}

TEST(Volume, ThePaddingOfALogIsCollected) {
  Rig rig;
  const auto volume = rig.Mount();
  auto log = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
  std::string content;
  for (std::uint64_t i = 0; i < 240; ++i) {  // ten zones of pieces that are mostly padding
    content += Content(i, 0, 100);
    ASSERT_OK(volume->writer().Append(log.get(), Content(i, 0, 100)));
    ASSERT_OK(volume->writer().Sync(log.get()));
  }
  const std::uint64_t pad = volume->Space().pad;
  EXPECT_GT(pad, 900000U);
  IOStatus status;
  for (std::uint64_t i = 0; status.ok(); ++i) {
    status = Put(volume.get(), "/" + std::to_string(i), Content(i, 0, 94000));
  }
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_LT(volume->Space().pad, pad / 4);
  EXPECT_EQ(ReadWhole(volume.get(), "/x.log"), content);
  ASSERT_OK(volume->writer().FinishWriting(log.get()));
  log.reset();
  ASSERT_OK(volume->Close());
  EXPECT_EQ(Violations(rig.device.get()), "");
  EXPECT_EQ(ReadWhole(rig.Mount().get(), "/x.log"), content);
}

// A patience that lasts until the test ends it.
class TestPatience final : public Patience {
 public:
  bool Wait(std::unique_lock<std::mutex>* lock, std::condition_variable* changed,
            const std::function<bool()>& done) override {
    {
      const std::lock_guard mine(mutex_);
      changed_ = changed;
      volume_ = lock->mutex();
      waits_ = true;
    }
    awaited_.notify_all();
    changed->wait(*lock, [this, &done] { return done() || TakeEnd(); });
    return done();
  }
  // Returns when a writer begins to wait for space: true, unless EndAlways was called.
  bool AwaitWriter() {
    std::unique_lock lock(mutex_);
    awaited_.wait(lock, [this] { return waits_ || always_; });
    waits_ = false;
    return !always_;
  }
  void End() {
    Change([this] { ++ends_; });
  }
  void EndAlways() {
    Change([this] { always_ = true; });
  }

 private:
  bool TakeEnd() {
    const std::lock_guard lock(mutex_);
    if (always_) return true;
    if (ends_ == 0) return false;
    --ends_;
    return true;
  }
  template <typename Action>
  void Change(const Action& change) {
    std::mutex* volume = nullptr;
    std::condition_variable* changed = nullptr;
    {
      const std::lock_guard lock(mutex_);
      change();
      volume = volume_;
      changed = changed_;
    }
    awaited_.notify_all();
    if (volume == nullptr) return;
    { const std::lock_guard lock(*volume); }  // now the writer waits, or checks again
    changed->notify_all();
  }

  std::mutex mutex_;  // lock order: after the state mutex; guards all members
  std::condition_variable awaited_;
  std::mutex* volume_ = nullptr;
  std::condition_variable* changed_ = nullptr;
  bool waits_ = false;
  int ends_ = 0;
  bool always_ = false;
};

TEST(Volume, ALogWithoutSpaceWaitsForJobsAndForNothingElse) {
  Rig rig("zones=40&zone_size=128K&zone_capacity=96K&max_active=14");
  const auto patience = std::make_shared<TestPatience>();
  const auto volume = rig.Mount({.patience = patience});
  std::vector<std::shared_ptr<File>> compactions;
  // Opens more zones than the log can take over before it runs out of space.
  for (const char* const name : {"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"}) {
    compactions.push_back(Create(volume.get(), name, FileKind::kData, DataPlacement()));
    ASSERT_OK(volume->writer().Append(compactions.back().get(), Content(1, 0, 8192)));
    ASSERT_OK(volume->writer().Sync(compactions.back().get()));
  }
  std::atomic<int> logs = 0;
  std::atomic<bool> full = false;
  std::thread writer([&] {
    IOStatus status;
    while (status.ok()) {
      const std::string name = "/" + std::to_string(++logs) + ".log";
      const auto log = Create(volume.get(), name, FileKind::kLog, LogPlacement());
      status = volume->writer().Append(log.get(), Content(2, 0, 90000));
      if (status.ok()) status = volume->writer().Sync(log.get());
      EXPECT_EQ(volume->writer().FinishWriting(log.get()).ok(), status.ok());
    }
    EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
    full = true;
    patience->EndAlways();  // wakes the test
  });
  for (int i = 0; i < 3; ++i) {  // the patience ends, and begins again
    ASSERT_TRUE(patience->AwaitWriter());
    EXPECT_FALSE(full) << "a compaction could still give space back";
    patience->End();
  }
  ASSERT_TRUE(patience->AwaitWriter());
  for (const auto& file : compactions) {
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
  }
  compactions.clear();
  patience->EndAlways();
  writer.join();
}

// A compaction deletes its inputs only after its last output. zlfs cannot know them earlier.
TEST(Volume, WhatIsDeletedAMomentLaterIsNotFullYet) {
  Rig rig;
  const auto patience = std::make_shared<TestPatience>();
  const auto volume = rig.Mount({.patience = patience});
  int count = 0;
  const auto fill = [&] {
    return Put(volume.get(), "/" + std::to_string(++count), Content(1, 0, 98304));
  };
  while (volume->Space().empty_zones > 8) ASSERT_OK(fill());
  int deleted = 0;
  std::thread deleter([&] {
    while (patience->AwaitWriter()) {
      EXPECT_OK(volume->files().Delete("/" + std::to_string(++deleted)));
    }
  });
  for (int i = 0; i < 20; ++i) EXPECT_OK(fill()) << i;
  patience->EndAlways();
  deleter.join();
  EXPECT_GE(deleted, 12);
}

TEST(Volume, AReaderKeepsAZoneFromBeingReset) {
  Rig rig;
  const auto volume = rig.Mount();
  std::vector<std::thread> readers;
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> reads = 0;
  ASSERT_OK(Put(volume.get(), "/cold", Content(1, 0, 600000)));
  const std::string expected = Content(1, 0, 600000);
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      std::shared_ptr<File> file;
      ASSERT_OK(volume->files().Open("/cold", &file));
      std::string buffer(600000, '\0');
      while (!stop) {
        Slice read;
        ASSERT_OK(volume->reader().Read(file.get(), 0, buffer.size(), &read, buffer.data()));
        ASSERT_EQ(buffer, expected);
        ++reads;
      }
    });
  }
  // Interleaves writes with the cold content, so that garbage collection must move it.
  for (std::uint64_t i = 0; i < 600 || reads < 10; ++i) {
    ASSERT_OK(Put(volume.get(), "/hot" + std::to_string(i % 50), Content(i, 0, 40000)));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(Volume, ConcurrentWritersKeepTheLimit) {
  Rig rig("zones=300&zone_size=128K&zone_capacity=96K&max_active=7");
  const auto volume = rig.Mount();
  std::vector<std::thread> writers;
  for (std::uint64_t w = 0; w < 6; ++w) {
    writers.emplace_back([&volume, w] {
      const auto log =
          Create(volume.get(), "/w" + std::to_string(w) + ".log", FileKind::kLog, LogPlacement());
      for (std::uint64_t i = 0; i < 60; ++i) {
        const std::string name = "/" + std::to_string(w) + "-" + std::to_string(i % 20);
        ASSERT_OK(Put(volume.get(), name, Content(w * 1000 + i, 0, 50000),
                      DataPlacement(static_cast<std::uint8_t>(2 + i % 4))));
        ASSERT_OK(volume->writer().Append(log.get(), Content(w, i * 100, 100)));
        ASSERT_OK(volume->writer().Sync(log.get()));
      }
      ASSERT_OK(volume->writer().FinishWriting(log.get()));
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (std::uint64_t w = 0; w < 6; ++w) {
    EXPECT_EQ(ReadWhole(volume.get(), "/w" + std::to_string(w) + ".log"), Content(w, 0, 6000));
    for (std::uint64_t i = 40; i < 60; ++i) {
      EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(w) + "-" + std::to_string(i % 20)),
                Content(w * 1000 + i, 0, 50000));
    }
  }
  ASSERT_OK(volume->Close());
  ExpectLedgerIsDevice(volume->totals(), rig.formatted, rig.device->counters());
}

TEST(Volume, AReadOnlyMountChangesNothing) {
  Rig rig;
  const auto writer = rig.Mount();
  const auto log = Create(writer.get(), "/x.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(writer->writer().Append(log.get(), Content(1, 0, 3000)));
  ASSERT_OK(writer->writer().Sync(log.get()));
  const Counters before = rig.device->counters();
  const auto reader = rig.Mount({.read_only = true, .policy = {}, .ledger_path = ""});
  EXPECT_EQ(ReadWhole(reader.get(), "/x.log"), Content(1, 0, 3000));
  std::shared_ptr<File> file;
  EXPECT_TRUE(reader->files().Create("/y", FileKind::kData, &file).IsNotSupported());
  EXPECT_TRUE(reader->files().Delete("/x.log").IsNotSupported());
  const auto dump = nlohmann::json::parse(DumpJson(reader.get()));
  EXPECT_EQ(dump["files"].size(), 1U);
  EXPECT_EQ(dump["files"][0]["size"], 3000);
  EXPECT_EQ(dump["policy"]["finish_occupancy_pct"], 100);
  const Counters after = rig.device->counters();
  EXPECT_EQ(before.writes, after.writes);
  EXPECT_EQ(before.resets, after.resets);
  ASSERT_OK(writer->writer().FinishWriting(log.get()));
}

TEST(Volume, ImportsAndCountsIt) {
  Rig rig;
  const auto volume = rig.Mount();
  int parts = 0;
  const Source source = [&parts, content = Content(5, 0, 500000)](Slice* part) {
    *part = parts++ == 0 ? Slice(content) : Slice();
    return IOStatus::OK();
  };
  ASSERT_OK(Import(volume.get(), "/cold/1", source));
  EXPECT_EQ(ReadWhole(volume.get(), "/cold/1"), Content(5, 0, 500000));
  EXPECT_EQ(volume->totals().written[static_cast<std::size_t>(Cause::kImport)].payload, 500000U);
  EXPECT_EQ(volume->Space().active_zones, 0U);
  EXPECT_TRUE(Import(volume.get(), "/cold/1", source).IsInvalidArgument());  // exists
  EXPECT_TRUE(Import(volume.get(), "/cold/2", [](Slice*) {
                return IOStatus::IOError("input");
              }).IsIOError());
  EXPECT_FALSE(volume->files().Exists("/cold/2"));
}

TEST(Volume, PoliciesAreRememberedAndCanBeChanged) {
  Policy policy;
  policy.finish_remaining_pct = 30;
  policy.finish_occupancy_pct = 70;
  Rig rig(kSmall, policy);
  EXPECT_EQ(rig.Mount()->superblock().policy, policy);
  MountOptions changes;
  changes.policy = {{"gc_victim", "cost-benefit"}, {"finish_occupancy_pct", "90"}};
  rig.Mount(changes);
  const Policy now = rig.Mount()->superblock().policy;
  EXPECT_EQ(now.gc_victim, Victim::kCostBenefit);
  EXPECT_EQ(now.finish_remaining_pct, 10);
  for (const OptionMap& bad : {OptionMap{{"colour", "red"}}, OptionMap{{"gc", "maybe"}},
                               OptionMap{{"gc_start_pct", "0"}}}) {
    std::unique_ptr<Volume> volume;
    changes.policy = bad;
    EXPECT_TRUE(Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), changes, &volume)
                    .IsInvalidArgument());
  }
}

TEST(Volume, FinishesByThreshold) {
  Policy policy;
  policy.finish_remaining_pct = 50;
  Rig rig(kSmall, policy);
  const auto volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 60000)));  // the zone's capacity is 96 KiB
  const Totals totals = volume->totals();
  const auto& finishes = totals.finishes[static_cast<std::size_t>(FinishCause::kThreshold)];
  EXPECT_EQ(finishes.count, 1U);
  EXPECT_EQ(finishes.given_up, (96U << 10) - 61440);
  EXPECT_EQ(volume->Space().given_up, finishes.given_up);
}

// --- refusals ---

TEST(Refusal, Mkfs) {
  const auto few = MakeDevice("zones=10&zone_size=128K");
  EXPECT_NE(Mkfs(few.get(), {}, "").ToString().find("too-few-zones"), std::string::npos);
  const auto tight = MakeDevice("zones=40&zone_size=128K&max_active=5");
  EXPECT_NE(Mkfs(tight.get(), {}, "").ToString().find("limits-too-small"), std::string::npos);
  const auto used = MakeDevice(kSmall);
  const Blocks blocks(1, 4096, 1);
  ASSERT_OK(used->Write(17, 0, blocks.slice()));
  EXPECT_NE(Mkfs(used.get(), {}, "").ToString().find("not-empty"), std::string::npos);
  EXPECT_NE(Mkfs(used.get(), {}, "other").ToString().find("not-empty"), std::string::npos);
  EXPECT_EQ(InfoOf(*used, 17).write_pointer, 4096U);
  ASSERT_OK(Mkfs(used.get(), {}, used->geometry().identity));
  EXPECT_EQ(InfoOf(*used, 17).write_pointer, 0U);
}

// A read-only metadata zone keeps the newest generation of the volume before.
TEST(Volume, AFormattedDeviceDoesNotHoldTheVolumeBefore) {
  Rig rig;
  for (int mount = 0; mount < 4; ++mount) {
    ASSERT_OK(Put(rig.Mount().get(), "/" + std::to_string(mount), Content(1, 0, 5000)));
  }
  Recovered recovered;
  ASSERT_OK(Recover(rig.device.get(), &recovered));
  const std::uint32_t kept = recovered.metadata_zones.front();
  EmulatedFaults::BreakZone(*rig.device, kept, ZoneCondition::kReadOnly);
  ASSERT_OK(Mkfs(rig.device.get(), {}, rig.device->geometry().identity));
  for (int mount = 0; mount < 3; ++mount) {
    EXPECT_EQ(Violations(rig.device.get()),
              "10: metadata zone " + std::to_string(kept) + " cannot be written\n");
    const auto volume = rig.Mount();
    ASSERT_NE(volume, nullptr);
    EXPECT_FALSE(volume->files().Exists("/0"));
    ASSERT_OK(Put(volume.get(), "/new" + std::to_string(mount), "new"));
  }
}

// A metadata zone that mkfs could not read keeps the newest generation of the volume before.
TEST(Volume, AZoneThatReturnsAfterMkfsDoesNotHoldTheVolumeBefore) {
  Rig rig;
  for (int mount = 0; mount < 4; ++mount) {
    ASSERT_OK(Put(rig.Mount().get(), "/" + std::to_string(mount), Content(1, 0, 5000)));
  }
  Recovered recovered;
  ASSERT_OK(Recover(rig.device.get(), &recovered));
  for (const std::uint32_t zone : recovered.metadata_zones) {
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
  }
  ASSERT_OK(Mkfs(rig.device.get(), {}, rig.device->geometry().identity));
  for (const std::uint32_t zone : recovered.metadata_zones) {
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kFull);
  }
  for (int mount = 0; mount < 3; ++mount) {
    EXPECT_EQ(Violations(rig.device.get()), "");
    const auto volume = rig.Mount();
    ASSERT_NE(volume, nullptr);
    EXPECT_FALSE(volume->files().Exists("/0"));
    ASSERT_OK(Put(volume.get(), "/new" + std::to_string(mount), "new"));
  }
}

// A read-only zone cannot be reset, so mkfs cannot remove what it holds.
TEST(Volume, AMetadataZoneMayHoldOtherDataIfItIsReadOnly) {
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    const std::shared_ptr<EmulatedDevice> device = MakeDevice(kSmall);
    const Blocks blocks(3, 4096, 1);
    ASSERT_OK(device->Write(zone, 0, blocks.slice()));
    EmulatedFaults::BreakZone(*device, zone, ZoneCondition::kReadOnly);
    ASSERT_OK(Mkfs(device.get(), {}, ""));
    for (int mount = 0; mount < 4; ++mount) {
      EXPECT_EQ(Violations(device.get()),
                "10: metadata zone " + std::to_string(zone) + " cannot be written\n");
      const auto volume = MountOk(std::make_unique<HookedDevice>(device, [] {}));
      ASSERT_NE(volume, nullptr);
      ASSERT_OK(Put(volume.get(), "/" + std::to_string(mount), Content(1, 0, 5000)));
      EXPECT_EQ(ReadWhole(volume.get(), "/0"), Content(1, 0, 5000));
    }
  }
}

TEST(Refusal, MkfsOfAVolumeInReadOnlyZones) {
  Rig rig;
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  for (std::uint32_t zone = 0; zone < rig.device->geometry().zone_count; ++zone) {
    if (InfoOf(*rig.device, zone).condition == ZoneCondition::kEmpty) continue;
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kReadOnly);
  }
  EXPECT_ERROR(Mkfs(rig.device.get(), {}, ""), "not-empty");
  EXPECT_EQ(ReadWhole(rig.Mount().get(), "/a"), Content(1, 0, 5000));
  ASSERT_OK(Mkfs(rig.device.get(), {}, rig.device->geometry().identity));
  EXPECT_FALSE(rig.Mount()->files().Exists("/a"));
}

TEST(Refusal, MountOfSomethingElse) {
  const auto blank = MakeDevice(kSmall);
  std::unique_ptr<Volume> volume;
  Recovered recovered;
  EXPECT_NE(Recover(blank.get(), &recovered).ToString().find("wrong-magic"), std::string::npos);
  const Blocks blocks(1, 4096, 1);
  ASSERT_OK(blank->Write(0, 0, blocks.slice()));
  EXPECT_NE(Recover(blank.get(), &recovered).ToString().find("wrong-magic"), std::string::npos);
  EXPECT_EQ(Violations(blank.get()).substr(0, 2), "1:");
}

TEST(Refusal, AnyChangeOfTheMetadata) {
  Rig rig("zones=40&zone_size=32K&block_size=512&max_active=8");
  std::uint32_t log_zone = 0;
  {
    const auto volume = rig.Mount();
    const auto log = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(volume->writer().Append(log.get(), Content(1, 0, 700)));
    ASSERT_OK(volume->writer().Sync(log.get()));
    ASSERT_OK(Put(volume.get(), "/x.sst", Content(2, 0, 900)));
    ASSERT_OK(volume->writer().Append(log.get(), Content(1, 700, 100)));
    ASSERT_OK(volume->writer().FinishWriting(log.get()));
    ASSERT_OK(volume->files().Delete("/x.sst"));
    log_zone = volume->files().All()[0].extents[0].zone;
  }
  ASSERT_EQ(Violations(rig.device.get()), "");
  Recovered recovered;
  ASSERT_OK(Recover(rig.device.get(), &recovered));
  std::uint64_t changes = 0;
  for (const auto& zones : {recovered.metadata_zones, {log_zone}}) {
    const std::uint64_t size = InfoOf(*rig.device, zones[0]).write_pointer;
    const std::string content = ReadZone(*rig.device, zones[0], 0, size);
    const auto rewrite = [&](const std::string& changed) {
      for (const std::uint32_t zone : zones) Rewrite(rig.device.get(), zone, changed);
    };
    for (std::size_t i = 0; i < content.size(); ++i) {
      std::string changed = content;
      changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
      rewrite(changed);
      ASSERT_NE(Violations(rig.device.get()), "") << "zone " << zones[0] << " byte " << i;
      std::unique_ptr<Volume> volume;
      ASSERT_FALSE(
          Volume::Mount(std::make_unique<HookedDevice>(rig.device, [] {}), {}, &volume).ok());
      ++changes;
    }
    rewrite(content);
  }
  EXPECT_GT(changes, 4000U);
  EXPECT_EQ(Violations(rig.device.get()), "");
}

// --- failures of the device ---

TEST(Failure, AfterAWriteErrorTheFileGoesOnInAnotherZone) {
  Rig rig;
  auto volume = rig.MountFaulty();
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 20000)));
  rig.faulty->Inject({.operation = Operation::kWrite, .landed_blocks = 2});
  ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 20000)));
  ASSERT_OK(Put(volume.get(), "/c", Content(3, 0, 20000)));
  for (int mount = 0; mount < 2; ++mount) {
    for (std::uint64_t i = 1; i < 4; ++i) {
      EXPECT_EQ(ReadWhole(volume.get(), std::string("/") + "0abc"[i]), Content(i, 0, 20000));
    }
    ASSERT_OK(volume->Close());
    if (mount == 0) {
      ExpectLedgerIsDevice(volume->totals(), rig.formatted, rig.device->counters());
      volume = rig.Mount();
    }
  }
  EXPECT_EQ(Violations(rig.device.get()), "");
}

TEST(Failure, WhatAFailedSyncDidNotWriteIsNeverWrittenLater) {
  Rig rig;
  auto volume = rig.MountFaulty();
  for (const FileKind kind : {FileKind::kData, FileKind::kLog}) {
    const std::string name = kind == FileKind::kLog ? "/a.log" : "/a";
    std::shared_ptr<File> file;
    ASSERT_OK(volume->files().Create(name, kind, &file));
    volume->writer().SetPlacement(file.get(),
                                  kind == FileKind::kLog ? LogPlacement() : DataPlacement());
    ASSERT_OK(volume->writer().Append(file.get(), "synced"));
    ASSERT_OK(volume->writer().Sync(file.get()));
    ASSERT_OK(volume->writer().Append(file.get(), " and not"));
    rig.faulty->Inject(
        {.operation = Operation::kWrite, .times = Fault::kForever, .error = DeviceError::kNoSpace});
    EXPECT_TRUE(volume->writer().Sync(file.get()).IsNoSpace());
    rig.faulty->ClearFaults();
    EXPECT_TRUE(volume->writer().Append(file.get(), " more").IsNoSpace());
    EXPECT_TRUE(volume->writer().Sync(file.get()).IsNoSpace());
    EXPECT_TRUE(volume->writer().FinishWriting(file.get()).IsNoSpace());
    EXPECT_EQ(ReadWhole(volume.get(), name), "synced");
  }
  ASSERT_OK(volume->Close());
  volume = rig.Mount();
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), "synced");
  EXPECT_EQ(ReadWhole(volume.get(), "/a.log"), "synced");
}

TEST(Failure, AfterAFailedFlushNoSyncSucceeds) {
  Rig rig;
  auto volume = rig.MountFaulty();
  rig.faulty->Inject({.operation = Operation::kFlush});
  EXPECT_TRUE(Put(volume.get(), "/a", "a").IsIOError());
  rig.faulty->ClearFaults();
  EXPECT_TRUE(Put(volume.get(), "/b", "b").IsIOError());
  volume = nullptr;
  volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/c", "c"));
}

TEST(Failure, AZoneThatCannotBeResetIsLeftOut) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  const std::uint64_t capacity = volume->Space().capacity;
  rig.faulty->Inject({.operation = Operation::kReset, .times = 1});
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i % 3), Content(i, 0, 100000)));
  }
  EXPECT_EQ(volume->Space().capacity, capacity - (96U << 10));
}

// Two databases write their WALs to one zone. One write fails: whole, in part, or after all blocks.
TEST(Failure, AFailedWriteOfOneLogLosesNeitherLog) {
  for (const std::uint64_t landed : {0, 1, 2, 3}) {
    Rig rig;
    auto volume = rig.MountFaulty();
    std::vector<std::shared_ptr<File>> logs;
    std::string content[2];
    for (const char* name : {"/1.log", "/2.log"}) {
      logs.push_back(Create(volume.get(), name, FileKind::kLog, LogPlacement()));
    }
    for (std::size_t round = 0; round < 6; ++round) {
      if (round == 2) rig.faulty->Inject({.operation = Operation::kWrite, .landed_blocks = landed});
      for (std::size_t i = 0; i < 2; ++i) {
        const std::string more = Content(i, content[i].size(), 10000);  // three blocks
        ASSERT_OK(volume->writer().Append(logs[i].get(), more));
        ASSERT_OK(volume->writer().Sync(logs[i].get()));
        content[i] += more;
      }
    }
    // The state that a killed process leaves.
    EXPECT_EQ(Violations(rig.device.get()), "") << landed;
    const auto after = rig.Mount();
    ASSERT_NE(after, nullptr) << landed;
    EXPECT_EQ(ReadWhole(after.get(), "/1.log"), content[0]);
    EXPECT_EQ(ReadWhole(after.get(), "/2.log"), content[1]);
    // The killed process writes no more.
    for (const Operation operation : {Operation::kWrite, Operation::kReset, Operation::kFinish}) {
      rig.faulty->Inject({.operation = operation, .times = Fault::kForever});
    }
  }
}

TEST(Failure, FailedWritesKeepNoActiveZones) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  for (std::uint64_t i = 0; i < 12; ++i) {
    rig.faulty->Inject({.operation = Operation::kWrite, .landed_blocks = i % 3});
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), Content(i, 0, 20000))) << i;
    std::uint32_t active = 0;
    for (std::uint32_t zone = kMetadataZones; zone < 40; ++zone) {
      active += IsActive(InfoOf(*rig.device, zone).condition);
    }
    EXPECT_EQ(active, volume->Space().active_zones);
    EXPECT_LE(active, 2U);
  }
}

TEST(Failure, AZoneThatOftenFailsIsLeftOut) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  rig.faulty->FailZone(kMetadataZones);
  for (std::uint64_t i = 0; i < 400; ++i) {
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i % 3), Content(i, 0, 100000)));
  }
  EXPECT_EQ(volume->Zones()[kMetadataZones].use, ZoneUse::kUnusable);
}

TEST(Failure, AFailedFinishFailsNoClose) {
  Policy policy;
  policy.finish_remaining_pct = 50;
  Rig rig(kSmall, policy);
  auto volume = rig.MountFaulty();
  rig.faulty->Inject({.operation = Operation::kFinish, .times = 2});
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 60000)));
  ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 60000)));
  ASSERT_OK(volume->Close());
  volume = rig.Mount();
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 60000));
  EXPECT_EQ(ReadWhole(volume.get(), "/b"), Content(2, 0, 60000));
}

TEST(Failure, AVictimThatCannotBeReadFailsNoWriter) {
  Policy policy;
  policy.gc_start_pct = 90;
  Rig rig(kSmall, policy);
  const auto volume = rig.MountFaulty();
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 50000)));
  ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 98304)));
  ASSERT_OK(volume->files().Delete("/a"));
  ASSERT_OK(volume->files().SyncNames());
  rig.faulty->Inject({.operation = Operation::kRead, .times = Fault::kForever});
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_OK(Put(volume.get(), "/c", Content(3, 0, 50000)));
  }
}

// Deleted files cost no copy: their zones are garbage as soon as the deletion is durable.
TEST(Volume, CollectsNoZoneOfDeletedFiles) {
  Policy policy;
  policy.gc_start_pct = 90;
  Rig rig(kSmall, policy);
  const auto volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/ballast", Content(1, 0, 6 * 98304)));  // after this, space is low
  ASSERT_OK(Put(volume.get(), "/x", Content(1, 0, 98304)));            // one zone
  ASSERT_OK(volume->files().Delete("/x"));                             // not durable yet
  const Totals before = volume->totals();
  const auto file = Create(volume.get(), "/y", FileKind::kData, DataPlacement());
  ASSERT_OK(volume->writer().Append(file.get(), Content(2, 0, 5000)));
  ASSERT_OK(volume->writer().FinishWriting(file.get()));
  EXPECT_EQ(volume->SinceMkfs().collected_zones, 0U);
  EXPECT_EQ(volume->totals().resets_data, before.resets_data + 1);
  EXPECT_EQ(volume->totals().flushes, before.flushes + 1)
      << "one commit makes the deletion durable";
}

// A WAL's sync commits no moves, so the collector does. Otherwise WALs would pay for victim after
// victim, and none would become an empty zone.
TEST(Volume, WalsGetTheZonesThatTheyPayFor) {
  Policy policy;
  policy.gc_start_pct = 90;
  Rig rig(kSmall, policy);
  const auto volume = rig.Mount();
  for (int i = 0; i < 6; ++i) {  // six zones
    ASSERT_OK(Put(volume.get(), "/garbage" + std::to_string(i), Content(1, 0, 49152)));
    ASSERT_OK(Put(volume.get(), "/kept" + std::to_string(i), Content(2, 0, 49152)));
  }
  for (int i = 0; i < 6; ++i) ASSERT_OK(volume->files().Delete("/garbage" + std::to_string(i)));
  ASSERT_OK(volume->files().SyncNames());
  const auto log = Create(volume.get(), "/x.log", FileKind::kLog, LogPlacement());
  std::uint64_t most = 0;  // collected zones that are not reset
  for (int i = 0; i < 200 && volume->SinceMkfs().collected_zones < 5; ++i) {
    ASSERT_OK(volume->writer().Append(log.get(), Content(3, 0, 4000)));
    ASSERT_OK(volume->writer().Sync(log.get()));
    const std::uint64_t resets = volume->totals().resets_data;
    most = std::max(most, volume->SinceMkfs().collected_zones - resets);
  }
  EXPECT_EQ(volume->SinceMkfs().collected_zones, 5U);
  EXPECT_EQ(most, 1U);
}

TEST(Volume, CountsNoCollectionWhoseFilesAreAllDeletedMeanwhile) {
  Policy policy;
  policy.gc_start_pct = 90;
  Rig rig(kSmall, policy);
  const auto volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/ballast", Content(1, 0, 6 * 98304)));  // after this, space is low
  // One zone: garbage, then twelve files of a block, so that a small write pays for two of them.
  ASSERT_OK(Put(volume.get(), "/garbage", Content(1, 0, 12 * 4096)));
  for (int i = 0; i < 12; ++i) {
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), Content(2, 0, 4096)));
  }
  ASSERT_OK(volume->files().Delete("/garbage"));
  ASSERT_OK(volume->files().SyncNames());
  const auto collected = [&] {
    return volume->totals().written[static_cast<std::size_t>(Cause::kGc)].payload;
  };
  const auto write = [&](const std::string& name) {
    const auto file = Create(volume.get(), name, FileKind::kData, DataPlacement());
    ASSERT_OK(volume->writer().Append(file.get(), "new"));
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
  };
  write("/new");
  ASSERT_GT(collected(), 0U);
  ASSERT_LT(collected(), 12 * 4096U);
  for (int i = 0; i < 12; ++i) ASSERT_OK(volume->files().Delete("/" + std::to_string(i)));
  const std::uint64_t flushes = volume->totals().flushes;
  for (int i = 0; i < 14; ++i) write("/new" + std::to_string(i));
  EXPECT_EQ(volume->SinceMkfs().collected_zones, 0U);
  EXPECT_EQ(volume->totals().flushes, flushes + 1) << "one commit makes the deletions durable";
}

// Writes that RocksDB acknowledges without a sync survive a kill, as on any file system.
TEST(Volume, AFlushedLogSurvivesTheEndOfTheProcess) {
  Rig rig;
  const auto volume = rig.Mount();
  auto log = Create(volume.get(), "/1.log", FileKind::kLog, LogPlacement());
  std::string content;
  for (std::uint64_t i = 0; i < 30; ++i) {  // several zones
    const std::string more = Content(3, content.size(), 1 + i * 500);
    ASSERT_OK(volume->writer().Append(log.get(), more));
    ASSERT_OK(volume->writer().WriteBuffer(log.get()));
    content += more;
    std::unique_ptr<EmulatedDevice> killed;
    ASSERT_OK(EmulatedFaults::Clone(*rig.device, "killed-log", &killed));
    const auto after =
        MountOk(std::make_unique<HookedDevice>(std::shared_ptr<EmulatedDevice>(std::move(killed)),
                                               rig.device->geometry().identity, [] {}));
    ASSERT_NE(after, nullptr);
    ASSERT_EQ(ReadWhole(after.get(), "/1.log"), content) << i;
  }
}

// Calls `judge` with a mount after each possible loss of power that takes the cached writes of one
// zone and no others. Returns the number of losses.
template <typename Judge>
std::uint64_t LoseEachZone(const EmulatedDevice& device, const Judge& judge) {
  std::set<std::uint32_t> zones;
  for (const CachedWrite& write : EmulatedFaults::Cached(device)) zones.insert(write.zone);
  for (const std::uint32_t lost : zones) {
    std::unique_ptr<EmulatedDevice> clone;
    EXPECT_OK(EmulatedFaults::Clone(device, "one-zone-lost", &clone));
    std::vector<std::uint64_t> kept;
    for (const CachedWrite& write : EmulatedFaults::Cached(device)) {
      kept.push_back(write.zone == lost ? 0 : write.blocks);
    }
    EmulatedFaults::PowerLoss(*clone, kept);
    const auto after = MountOk(
        std::make_unique<HookedDevice>(std::move(clone), device.geometry().identity, [] {}));
    if (after != nullptr) judge(after.get());
  }
  return zones.size();
}

// RocksDB replays WALs in order, so a WAL may have content only if no content of earlier WALs is
// lost.
TEST(Volume, APowerLossLeavesNoGapBetweenLogs) {
  Rig rig(kSmall + std::string("&cache=volatile"));
  std::vector<std::string> contents;
  std::uint64_t losses = 0;
  const auto judge = [&](Volume* after) {
    bool gap = false;
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const std::string name = "/" + std::to_string(i) + ".log";
      const std::string content = after->files().Exists(name) ? ReadWhole(after, name) : "";
      EXPECT_TRUE(!gap || content.empty()) << name << " follows a gap";
      gap = gap || content != contents[i];
    }
  };
  const auto volume = MountOk(std::make_unique<HookedDevice>(
      rig.device, [&] { losses += LoseEachZone(*rig.device, judge); }));
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::string name = "/" + std::to_string(i) + ".log";
    const auto log = Create(volume.get(), name, FileKind::kLog, LogPlacement());
    contents.emplace_back();
    for (std::uint64_t piece = 0; piece < 3; ++piece) {
      const std::string more = Content(i, contents.back().size(), 9000);
      contents.back() += more;
      ASSERT_OK(volume->writer().Append(log.get(), more));
      ASSERT_OK(volume->writer().WriteBuffer(log.get()));
    }
    ASSERT_OK(volume->writer().FinishWriting(log.get()));
  }
  EXPECT_GT(losses, 40U);
}

// A finished zone has no write pointer that shows what the cache lost. So the cache must hold no
// content when a zone is finished. Otherwise files would end with zeros that were never written.
TEST(Volume, APowerLossBehindAFinishInventsNothing) {
  Policy policy;
  policy.finish_remaining_pct = 70;
  Rig rig(kSmall + std::string("&cache=volatile"), policy);
  std::map<std::string, std::string> contents;
  std::uint64_t losses = 0;
  const auto judge = [&](Volume* after) {
    for (const auto& [name, content] : contents) {
      const std::string left = after->files().Exists(name) ? ReadWhole(after, name) : "";
      EXPECT_TRUE(content.starts_with(left)) << name;
    }
  };
  const auto volume = MountOk(std::make_unique<HookedDevice>(
      rig.device, [&] { losses += LoseEachZone(*rig.device, judge); }));
  for (std::uint64_t i = 0; i < 24; ++i) {
    const std::string name = "/" + std::to_string(i);
    const auto file = Create(volume.get(), name, FileKind::kData, DataPlacement());
    contents[name] = Content(i, 0, 40000);
    ASSERT_OK(volume->writer().Append(file.get(), contents[name]));
    if (i % 4 == 3) {
      ASSERT_OK(volume->writer().Sync(file.get()));
    }
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
  }
  EXPECT_GT(losses, 20U);
  EXPECT_GT(volume->totals().finishes[static_cast<std::size_t>(FinishCause::kThreshold)].count, 5U);
}

// WALs without a record of their size in the metadata: only their pieces show it.
class LostLog : public testing::Test {
 protected:
  // Writes two logs to zones of their own and kills the process.
  void SetUp() override {
    volume_ = rig_.Mount();
    for (const char* name : {"/1.log", "/2.log"}) {
      const auto log = Create(volume_.get(), name, FileKind::kLog, LogPlacement());
      for (std::uint64_t i = 0; i < 8; ++i) {
        ASSERT_OK(volume_->writer().Append(log.get(), Content(7, i * 12000, 12000)));
        ASSERT_OK(volume_->writer().Sync(log.get()));
      }
      zones_.push_back(FilesOf(volume_.get()).at(name).extents.back().zone);
      ASSERT_OK(volume_->writer().FinishWriting(log.get()));
    }
    ASSERT_NE(zones_[0], zones_[1]);
    ASSERT_OK(EmulatedFaults::Clone(*rig_.device, "lost-log", &clone_));
    killed_ = std::move(clone_);
  }
  static std::map<std::string, FileInfo> FilesOf(Volume* volume) {
    std::map<std::string, FileInfo> files;
    for (FileInfo& file : volume->files().All()) files[file.name] = file;
    return files;
  }
  std::unique_ptr<Volume> MountKilled() {
    return MountOk(
        std::make_unique<HookedDevice>(killed_, rig_.device->geometry().identity, [] {}));
  }
  std::string KilledViolations() {
    HookedDevice device(killed_, rig_.device->geometry().identity, [] {});
    return Violations(&device);
  }

  Rig rig_;
  std::unique_ptr<Volume> volume_;
  std::vector<std::uint32_t> zones_;
  std::unique_ptr<EmulatedDevice> clone_;
  std::shared_ptr<EmulatedDevice> killed_;
  const std::string content_ = Content(7, 0, 96000);
};

TEST_F(LostLog, AReadOnlyZoneIsReadToItsCapacity) {
  for (const std::uint32_t zone : zones_)
    EmulatedFaults::BreakZone(*killed_, zone, ZoneCondition::kReadOnly);
  for (int mount = 0; mount < 3; ++mount) {
    EXPECT_EQ(KilledViolations(), "");
    const auto volume = MountKilled();
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), content_);
    EXPECT_EQ(ReadWhole(volume.get(), "/2.log"), content_);
  }
}

TEST_F(LostLog, AnOfflineZoneIsAnErrorAndNeverAShorterFile) {
  EmulatedFaults::BreakZone(*killed_, zones_[1], ZoneCondition::kOffline);
  for (int mount = 0; mount < 3; ++mount) {
    const std::string violations = KilledViolations();
    EXPECT_EQ(violations.substr(0, 3), "10:");
    EXPECT_NE(violations.find("/2.log"), std::string::npos) << violations;
    EXPECT_NE(violations.find("zone " + std::to_string(zones_[1])), std::string::npos);
    EXPECT_EQ(violations.find("/1.log"), std::string::npos) << violations;
    const auto volume = MountKilled();
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), content_);
    std::shared_ptr<File> file;
    ASSERT_OK(volume->files().Open("/2.log", &file));
    std::string part(content_.size(), '\0');
    Slice read;
    const IOStatus status = volume->reader().Read(file.get(), 0, part.size(), &read, part.data());
    EXPECT_ERROR(status, "lost-content");
    EXPECT_NE(status.ToString().find("/2.log"), std::string::npos);
    const std::uint64_t known = volume->reader().Size(file.get());
    if (known > 0) {
      ASSERT_OK(volume->reader().Read(file.get(), 0, known, &read, part.data()));
      EXPECT_EQ(read.ToString(), content_.substr(0, known));
    }
    ASSERT_OK(Put(volume.get(), "/new" + std::to_string(mount), "works"));
  }
  const auto volume = MountKilled();
  ASSERT_OK(volume->files().Delete("/2.log"));
  ASSERT_OK(volume->Close());
  EXPECT_EQ(KilledViolations(), "");
}

// The content of a failed write is written again elsewhere, so its blocks hold nothing that counts.
TEST(Failure, UnreadableBlocksOfAFailedWriteNameNoLoss) {
  for (const std::uint64_t landed : {1, 3}) {
    Rig rig;
    const auto killed = rig.MountFaulty();
    std::vector<std::shared_ptr<File>> logs;
    for (const char* const name : {"/1.log", "/2.log"}) {
      logs.push_back(Create(killed.get(), name, FileKind::kLog, LogPlacement()));
      ASSERT_OK(killed->writer().Append(logs.back().get(), Content(1, 0, 5000)));  // two blocks
      ASSERT_OK(killed->writer().Sync(logs.back().get()));
    }
    const std::uint32_t zone = logs[0]->extents[0].zone;
    rig.faulty->Inject({.operation = Operation::kWrite, .landed_blocks = landed});
    ASSERT_OK(killed->writer().Append(logs[0].get(), Content(1, 5000, 10000)));
    ASSERT_OK(killed->writer().Sync(logs[0].get()));
    rig.faulty->DieAfter(0);
    auto device = std::make_unique<UnreadableDevice>(rig.device.get());
    device->Lose(zone, 4 * 4096);
    EXPECT_EQ(Violations(device.get()), "");
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), Content(1, 0, 15000));
    EXPECT_EQ(ReadWhole(volume.get(), "/2.log"), Content(1, 0, 5000));
  }
}

// Replaces the metadata by a snapshot that names the only file, and these zones as its log zones.
void NameLogZones(ZonedDevice* device, const std::vector<std::uint32_t>& zones) {
  Recovered recovered;
  ASSERT_OK(Recover(device, &recovered));
  const FileInfo& file = *recovered.space.files.begin()->second;
  const auto describe = [&](std::vector<Record>* records) {
    records->emplace_back(StateRecord{.next_file = recovered.space.next_file});
    records->emplace_back(
        CreateRecord{.file = file.id, .kind = file.kind, .modified = 0, .name = file.name});
    for (const std::uint32_t zone : zones) {
      records->emplace_back(LogZoneRecord{.zone = zone, .offset = 0});
      records->emplace_back(LogFileRecord{.file = file.id, .zone = zone});
    }
  };
  ZoneIo io(device);
  std::mutex state;
  MetaLog log(&io, &state, describe, recovered.superblock, recovered.metadata_zones,
              recovered.last_frame, recovered.last_checksum, recovered.zones[0].capacity);
  ASSERT_OK(log.RollOver());
}

// A failed write can leave a whole piece, and its content goes to another zone, here in a longer
// piece. A mount that cannot read the other zone finds the old piece only. Earlier versions of zlfs
// did not record the end of the old piece's zone.
TEST(Failure, ALogZoneThatCannotBeReadForAMomentLosesNothing) {
  for (const std::uint64_t later : {0, 1, 3}) {
    Rig rig;
    const auto killed = rig.MountFaulty();
    const auto log = Create(killed.get(), "/1.log", FileKind::kLog, LogPlacement());
    const std::string content = Content(1, 0, 19000 * (5 + later));
    for (std::uint64_t i = 0; i < 5 + later; ++i) {
      // The fifth write is cut at the end of the zone.
      if (i == 4) rig.faulty->Inject({.operation = Operation::kWrite, .landed_blocks = 5});
      ASSERT_OK(killed->writer().Append(log.get(), Content(1, i * 19000, 19000)));
      ASSERT_OK(killed->writer().Sync(log.get()));
    }
    rig.faulty->DieAfter(0);
    const std::vector<Extent> extents = killed->files().All()[0].extents;
    const std::uint32_t zone = extents.back().zone;
    NameLogZones(rig.device.get(), {extents.front().zone, zone});
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
    {
      const std::string violations = Violations(rig.device.get());
      EXPECT_TRUE(violations.starts_with("10: /1.log: the end from byte ")) << violations;
      const auto volume = rig.Mount();
      std::shared_ptr<File> file;
      ASSERT_OK(volume->files().Open("/1.log", &file));
      std::string part(content.size(), '\0');
      Slice read;
      EXPECT_ERROR(volume->reader().Read(file.get(), 0, part.size(), &read, part.data()),
                   "lost-content");
      // It has recorded the old piece.
      EXPECT_GT(volume->reader().Size(file.get()), 4 * 19000U);
    }
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kFull);
    for (int mount = 0; mount < 2; ++mount) {
      EXPECT_EQ(Violations(rig.device.get()), "") << later;
      const auto volume = rig.Mount();
      ASSERT_NE(volume, nullptr) << later;
      EXPECT_TRUE(ReadWhole(volume.get(), "/1.log") == content) << later;
    }
  }
}

// Kills a mount after a sync of /1.log, which has 5,000 bytes in the zone.
void KillWithSyncedLog(Rig* rig, std::uint32_t* zone) {
  const auto killed = rig->MountFaulty();
  const auto log = Create(killed.get(), "/1.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(killed->writer().Append(log.get(), Content(1, 0, 5000)));
  ASSERT_OK(killed->writer().Sync(log.get()));
  *zone = log->extents.back().zone;
  rig->faulty->DieAfter(0);
}

// The blocks behind the pieces could hold more of them.
TEST(Failure, AnUnreadableRestOfALogZoneIsNamed) {
  Rig rig;
  std::uint32_t zone = 0;
  ASSERT_NO_FATAL_FAILURE(KillWithSyncedLog(&rig, &zone));
  const std::uint64_t end = InfoOf(*rig.device, zone).write_pointer;
  ASSERT_OK(rig.device->FinishZone(zone));
  auto device = std::make_unique<UnreadableDevice>(rig.device.get());
  device->Lose(zone, end + 4096);
  const std::string violations = Violations(device.get());
  EXPECT_TRUE(violations.starts_with("10: /1.log: the end from byte 5000 on")) << violations;
  const auto volume = MountOk(std::move(device));
  ASSERT_NE(volume, nullptr);
  std::shared_ptr<File> file;
  ASSERT_OK(volume->files().Open("/1.log", &file));
  std::string content(5000, '\0');
  Slice read;
  ASSERT_OK(volume->reader().Read(file.get(), 0, content.size(), &read, content.data()));
  EXPECT_EQ(read.ToString(), Content(1, 0, 5000));
  EXPECT_ERROR(volume->reader().Read(file.get(), 5000, 1, &read, content.data()), "lost-content");
}

// A log zone with a damaged piece refuses mounts. No later mount can read more of it.
TEST(Failure, ARepairEndsALogBeforeADamagedPiece) {
  Rig rig;
  {
    const auto killed = rig.MountFaulty();
    const auto log = Create(killed.get(), "/1.log", FileKind::kLog, LogPlacement());
    for (std::uint64_t i = 0; i < 3; ++i) {
      ASSERT_OK(killed->writer().Append(log.get(), Content(1, i * 5000, 5000)));
      ASSERT_OK(killed->writer().Sync(log.get()));
    }
    rig.faulty->DieAfter(0);
    const std::uint32_t zone = log->extents.back().zone;
    std::string pieces = ReadZone(*rig.device, zone, 0, InfoOf(*rig.device, zone).write_pointer);
    pieces[8192 + 1000] ^= 1;  // in the second piece
    Rewrite(rig.device.get(), zone, pieces);
  }
  EXPECT_EQ(Violations(rig.device.get()).substr(0, 16), "7: corrupt-piece");
  {
    const auto volume = rig.Mount({.salvage = true});
    ASSERT_NE(volume, nullptr);
    ASSERT_EQ(volume->losses().size(), 1U);
    EXPECT_NE(volume->losses()[0].find("corrupt-piece"), std::string::npos);
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), Content(1, 0, 5000));
    std::shared_ptr<File> file;
    ASSERT_OK(volume->files().Open("/1.log", &file));
    std::string part(1, '\0');
    Slice read;
    EXPECT_ERROR(volume->reader().Read(file.get(), 5000, 1, &read, part.data()), "lost-content");
    file.reset();
    ASSERT_OK(volume->Close());
  }
  EXPECT_EQ(Violations(rig.device.get()), "");
  EXPECT_EQ(ReadWhole(rig.Mount().get(), "/1.log"), Content(1, 0, 5000));
}

// A device whose unwritten blocks read as ones, as NVMe allows.
class OnesDevice final : public ForwardingDevice {
 public:
  explicit OnesDevice(EmulatedDevice* inner) : ForwardingDevice(inner) {}
  // Breaks or finishes the zone. Its blocks from the write pointer on stay unwritten.
  void End(EmulatedDevice* inner, std::uint32_t zone, ZoneCondition condition) {
    unwritten_[zone] = InfoOf(*inner, zone).write_pointer;
    EmulatedFaults::BreakZone(*inner, zone, condition);
  }

 private:
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size,
                  char* buffer) override {
    RETURN_IF_ERROR(inner_->Read(zone, offset, size, buffer));
    const auto unwritten = unwritten_.find(zone);
    if (unwritten == unwritten_.end()) return IOStatus::OK();
    const std::uint64_t from = std::max(unwritten->second, offset) - offset;
    if (from < size) std::memset(buffer + from, 0xff, size - from);
    return IOStatus::OK();
  }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    if (to == ZoneCondition::kEmpty) unwritten_.erase(zone);
    return inner_->ChangeZone(zone, to);
  }
  std::map<std::uint32_t, std::uint64_t> unwritten_;  // zone -> first unwritten byte
};

TEST(Failure, UnwrittenBlocksMayReadAsOnes) {
  for (const auto condition : {ZoneCondition::kFull, ZoneCondition::kReadOnly}) {
    Rig rig;
    std::uint32_t zone = 0;
    ASSERT_NO_FATAL_FAILURE(KillWithSyncedLog(&rig, &zone));
    Recovered recovered;
    ASSERT_OK(Recover(rig.device.get(), &recovered));
    const std::uint32_t copy = recovered.metadata_zones[0];
    const std::uint32_t empty = 3 - copy - recovered.metadata_zones[1];
    auto device = std::make_unique<OnesDevice>(rig.device.get());
    device->End(rig.device.get(), zone, condition);
    const bool broken = condition == ZoneCondition::kReadOnly;
    device->End(rig.device.get(), broken ? empty : copy, condition);
    const std::string found =
        broken ? "10: metadata zone " + std::to_string(empty) + " cannot be written\n" : "";
    EXPECT_EQ(Violations(device.get()), found);
    const auto volume = MountOk(std::move(device));
    ASSERT_NE(volume, nullptr);
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), Content(1, 0, 5000));
  }
}

TEST(Failure, PiecesOfALostCreationBelongToNoLaterFile) {
  for (const FileKind kind : {FileKind::kLog, FileKind::kData}) {
    Rig rig;
    const auto killed = rig.MountFaulty();
    const auto log = Create(killed.get(), "/1.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(killed->writer().Append(log.get(), Content(1, 0, 5000)));
    ASSERT_OK(killed->writer().Sync(log.get()));
    // The piece of another log becomes durable, the record of its creation does not.
    const auto lost = Create(killed.get(), "/lost.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(killed->writer().Append(lost.get(), Content(2, 0, 5000)));
    rig.faulty->DieAfter(2);  // a flush and the piece
    ASSERT_FALSE(killed->writer().Sync(lost.get()).ok());
    const std::uint32_t zone = killed->files().All()[0].extents.back().zone;
    ASSERT_EQ(InfoOf(*rig.device, zone).write_pointer, 16384U);
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
    {
      const auto volume = rig.Mount();
      const Placement placement = kind == FileKind::kLog ? LogPlacement() : DataPlacement();
      const auto file = Create(volume.get(), "/new", kind, placement);
      ASSERT_OK(volume->writer().Append(file.get(), Content(3, 0, 5000)));
      ASSERT_OK(volume->writer().Sync(file.get()));
    }
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kFull);
    EXPECT_EQ(Violations(rig.device.get()), "");
    const auto volume = rig.Mount();
    ASSERT_NE(volume, nullptr);
    EXPECT_TRUE(ReadWhole(volume.get(), "/1.log") == Content(1, 0, 5000));
    EXPECT_TRUE(ReadWhole(volume.get(), "/new") == Content(3, 0, 5000));
  }
}

TEST(Failure, ALossIsNamedWithEveryNameOfItsFile) {
  Rig rig;
  std::uint32_t zone = 0;
  {
    const auto volume = rig.Mount();
    ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
    ASSERT_OK(volume->files().Link("/a", "/b"));
    zone = volume->files().All()[0].extents[0].zone;
    ASSERT_OK(volume->Close());
  }
  EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
  EXPECT_NE(Violations(rig.device.get()).find("/a, /b: bytes 0 to 5000"), std::string::npos);
}

// An extent can be as large as a zone.
TEST(Failure, LossesAreFoundWithoutALargeBuffer) {
  constexpr std::uint64_t kSize = 3 << 20;
  Rig rig("zones=20&zone_size=4M&max_active=8");
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, kSize)));
  const std::vector<FileInfo> files = rig.Mount({.read_only = true})->files().All();
  ASSERT_EQ(files[0].extents.size(), 1U);
  const Extent extent = files[0].extents[0];
  EmulatedFaults::BreakZone(*rig.device, extent.zone, ZoneCondition::kReadOnly);
  UnreadableDevice device(rig.device.get());
  EXPECT_EQ(Violations(&device), "");
  EXPECT_LE(device.largest_read(), std::size_t{1} << 20);
  device.Lose(extent.zone, extent.end() - 4096);
  EXPECT_EQ(Violations(&device), "10: /a: bytes 0 to 3145728 lie in zone " +
                                     std::to_string(extent.zone) +
                                     ", which is read-only and cannot be read\n");
}

TEST(Failure, OfflineAndReadOnlyZones) {
  Rig rig;
  std::uint32_t zone = 0;
  {
    const auto volume = rig.Mount();
    ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
    zone = volume->files().All()[0].extents[0].zone;
  }
  EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kReadOnly);
  {
    const auto volume = rig.Mount();
    EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
    ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 5000)));
  }
  EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
  EXPECT_EQ(Violations(rig.device.get()).substr(0, 3), "10:");
  const auto volume = rig.Mount();
  EXPECT_EQ(ReadWhole(volume.get(), "/b"), Content(2, 0, 5000));
  std::shared_ptr<File> file;
  ASSERT_OK(volume->files().Open("/a", &file));
  char byte;
  Slice read;
  EXPECT_ERROR(volume->reader().Read(file.get(), 0, 1, &read, &byte), DeviceError::kZoneOffline);
}

// Two tenants of one namespace divide its active zones.
TEST(Policy, KeepsToItsShareOfTheActiveZones) {
  Policy policy;
  ASSERT_OK(ChangePolicy({{"max_active", "8"}}, &policy));
  Rig rig("zones=60&zone_size=128K&max_active=14", policy);
  const auto volume = rig.Mount();
  ASSERT_NE(volume, nullptr);
  std::uint32_t most = 0;
  for (int i = 0; i < 12; ++i) {
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), Content(7, 0, 9000)));
    most = std::max(most, volume->Space().active_zones);
  }
  EXPECT_LE(most, 8 - kMetadataActive);
  EXPECT_TRUE(ChangePolicy({{"max_active", "5"}}, &policy).IsInvalidArgument());
  ASSERT_OK(ChangePolicy({{"max_active", "0"}}, &policy));
}

TEST(Failure, ADeviceThatLowersItsLimit) {
  Rig rig("zones=60&zone_size=128K&max_active=14");
  {
    const auto volume = rig.Mount();
    std::vector<std::shared_ptr<File>> files;
    for (int i = 0; i < 9; ++i) {
      files.push_back(Create(volume.get(), "/" + std::to_string(i), FileKind::kData,
                             DataPlacement(static_cast<std::uint8_t>(i % 6))));
      ASSERT_OK(volume->writer().Append(files.back().get(), Content(7, 0, 9000)));
      ASSERT_OK(volume->writer().Sync(files.back().get()));
    }
    for (const auto& file : files) ASSERT_OK(volume->writer().FinishWriting(file.get()));
    files.clear();
    EXPECT_GT(volume->Space().active_zones, 8U);
  }
  EmulatedFaults::SetLimits(*rig.device, 7, 7);
  auto smaller = std::make_unique<HookedDevice>(rig.device, [] {});
  smaller->SetLimits(7, 7);
  const auto volume = MountOk(std::move(smaller));
  ASSERT_NE(volume, nullptr);
  EXPECT_LE(volume->Space().active_zones, 5U);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(i)), Content(7, 0, 9000));
    ASSERT_OK(Put(volume.get(), "/new" + std::to_string(i), Content(8, 0, 90000)));
  }
}

// mkfs needs this many zones. The volume goes on with fewer.
TEST(Failure, AVolumeOfTheFewestZonesSurvivesTheLossOfOne) {
  Rig rig("zones=" + std::to_string(kMinZones) + "&zone_size=128K&max_active=8");
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  EmulatedFaults::BreakZone(*rig.device, kMinZones - 1, ZoneCondition::kOffline);
  const auto volume = rig.Mount();
  ASSERT_NE(volume, nullptr);
  EXPECT_EQ(ReadWhole(volume.get(), "/a"), Content(1, 0, 5000));
  ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 5000)));
}

// Expects that /a can be read, and that changes fail with this reason.
void ExpectReadOnly(Volume* volume, const std::string& reason) {
  ASSERT_NE(volume, nullptr);
  EXPECT_TRUE(volume->why_read_only().starts_with(reason)) << volume->why_read_only();
  EXPECT_EQ(ReadWhole(volume, "/a"), Content(1, 0, 5000));
  std::shared_ptr<File> file;
  const IOStatus status = volume->files().Create("/b", FileKind::kData, &file);
  EXPECT_ERROR(status, "read-only");
  EXPECT_NE(status.ToString().find(reason), std::string::npos) << status.ToString();
  EXPECT_OK(volume->Close());
}

TEST(Failure, AMountWhoseLogCannotBeginIsReadOnly) {
  Rig rig("zones=60&zone_size=128K&max_active=14");
  ASSERT_OK(Put(rig.Mount().get(), "/a", Content(1, 0, 5000)));
  for (std::uint64_t after = 0; after < 3; ++after) {
    auto device = std::make_unique<FaultyDevice>(rig.device.get());
    device->Inject({.operation = Operation::kFlush, .after = after});
    ExpectReadOnly(MountOk(std::move(device)).get(), "io: injected");
  }
  auto few = std::make_unique<HookedDevice>(rig.device, [] {});
  few->SetLimits(5, 5);
  ExpectReadOnly(MountOk(std::move(few)).get(), "limits-too-small: 5 active zones");
  EXPECT_EQ(Violations(rig.device.get()), "");
  ASSERT_OK(Put(rig.Mount().get(), "/c", "works again"));
}

TEST(Failure, AMountThatCannotFinishZonesIsReadOnly) {
  Rig rig("zones=60&zone_size=128K&max_active=14");
  {
    const auto volume = rig.Mount();
    ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
    std::vector<std::shared_ptr<File>> files;
    for (std::uint8_t i = 0; i < 8; ++i) {
      files.push_back(
          Create(volume.get(), "/d" + std::to_string(i), FileKind::kData, DataPlacement(i % 6)));
      ASSERT_OK(volume->writer().Append(files.back().get(), Content(7, 0, 9000)));
      ASSERT_OK(volume->writer().Sync(files.back().get()));
    }
    for (const auto& file : files) ASSERT_OK(volume->writer().FinishWriting(file.get()));
  }
  HookedDevice smaller(rig.device, [] {});
  smaller.SetLimits(7, 7);
  auto device = std::make_unique<FaultyDevice>(&smaller);
  device->Inject({.operation = Operation::kFinish, .times = Fault::kForever});
  ExpectReadOnly(MountOk(std::move(device)).get(), "limits-too-small: too many zones are active");
}

// Another user of the device has more active zones than its share.
TEST(Failure, AZoneThatTheDeviceDoesNotOpenIsNotBlamed) {
  Rig rig("zones=60&zone_size=128K&max_active=14");
  auto volume = rig.Mount();
  const std::uint64_t capacity = volume->Space().capacity;
  EmulatedFaults::SetLimits(*rig.device, kMetadataActive + 1, 0);
  constexpr std::uint64_t kFiles = 60;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    const Placement placement = DataPlacement(static_cast<std::uint8_t>(i % 6));
    ASSERT_OK(Put(volume.get(), "/" + std::to_string(i), Content(i, 0, 50000), placement)) << i;
  }
  EXPECT_EQ(volume->Space().capacity, capacity);
  for (const ZoneSpace& zone : volume->Zones()) EXPECT_EQ(zone.failures, 0);
  ASSERT_OK(volume->Close());
  ExpectLedgerIsDevice(volume->totals(), rig.formatted, rig.device->counters());
  EXPECT_EQ(Violations(rig.device.get()), "");
  EmulatedFaults::SetLimits(*rig.device, 14, 0);
  volume = rig.Mount();
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    EXPECT_EQ(ReadWhole(volume.get(), "/" + std::to_string(i)), Content(i, 0, 50000));
  }
}

// The metadata log names the zone before the WAL's first piece. Recovery must look for no pieces
// when the zone has other content.
TEST(Failure, AZoneThatWasNotOpenedForALogCanTakeOtherData) {
  Rig rig;
  const auto volume = rig.MountFaulty();
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
  const auto log = Create(volume.get(), "/1.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(volume->writer().Append(log.get(), Content(2, 0, 5000)));
  rig.faulty->Inject({.operation = Operation::kWrite, .error = DeviceError::kActiveLimit});
  ASSERT_OK(volume->writer().Sync(log.get()));
  const std::vector<ZoneSpace> zones = volume->Zones();
  const auto refused = std::ranges::find(zones, true, &ZoneSpace::broken);
  ASSERT_NE(refused, zones.end());
  const auto zone = static_cast<std::uint32_t>(refused - zones.begin());
  const auto taken = [&] { return volume->Zones()[zone].kept.live > 0; };
  for (std::uint64_t i = 0; i < 100 && !taken(); ++i) {
    ASSERT_OK(Put(volume.get(), "/b", Content(i, 0, 98304)));
  }
  EXPECT_TRUE(taken());
  EXPECT_EQ(Violations(rig.device.get()), "");
  EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), Content(2, 0, 5000));
  ASSERT_OK(volume->writer().FinishWriting(log.get()));
}

class CountedPatience final : public Patience {
 public:
  bool Wait(std::unique_lock<std::mutex>* /*lock*/, std::condition_variable* /*changed*/,
            const std::function<bool()>& done) override {
    ++waits;
    return done();
  }
  int waits = 0;
};

TEST(Failure, AWriterWaitsUntilTheDeviceOpensAZone) {
  Rig rig;
  const auto patience = std::make_shared<CountedPatience>();
  auto owned = std::make_unique<FaultyDevice>(rig.device.get());
  FaultyDevice* const faulty = owned.get();
  const auto volume = MountOk(std::move(owned), {.patience = patience});
  const std::uint64_t capacity = volume->Space().capacity;
  faulty->Inject({.operation = Operation::kWrite, .times = 5, .error = DeviceError::kActiveLimit});
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
  EXPECT_EQ(patience->waits, 4);
  for (const DeviceError::Name error : {DeviceError::kActiveLimit, DeviceError::kOpenLimit}) {
    faulty->Inject({.operation = Operation::kWrite, .times = Fault::kForever, .error = error});
    EXPECT_ERROR(Put(volume.get(), "/b", Content(2, 0, 5000)), error);
    faulty->ClearFaults();
    ASSERT_OK(Put(volume.get(), "/c", Content(3, 0, 5000)));
  }
  EXPECT_EQ(volume->Space().capacity, capacity);
  for (const ZoneSpace& zone : volume->Zones()) EXPECT_EQ(zone.failures, 0);
}

}  // namespace
}  // namespace zlfs
