// A load of several threads with garbage collection replays to the byte. Damaged traces are
// refused. Replays at other settings change the counts as expected.

#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/counterfactual.h"
#include "replay/model.h"
#include "replay/recorded.h"
#include "replay/tests/recording.h"

namespace zlfs::replay {
namespace {

void ExpectEqual(const Model& model, const std::string& ledger) {
  const nlohmann::json recorded = nlohmann::json::parse(ledger);
  nlohmann::json replayed = LedgerCounts(model.totals(), model.collected_zones(),
                                         SpaceOf(model.allocator()), model.retired());
  for (const std::string_view cause : kCauseNames) {
    if (cause == "metadata") continue;
    EXPECT_EQ(replayed["written"][cause], recorded["written"][cause]);
  }
  EXPECT_EQ(replayed["finishes"], recorded["finishes"]);
  EXPECT_EQ(replayed["resets"]["data"], recorded["resets"]["data"]);
  EXPECT_EQ(replayed["collected_zones"], recorded["collected_zones"]);
  EXPECT_EQ(replayed["space"], recorded["space"]);
  EXPECT_EQ(LedgerZones(model.allocator()), recorded["zones"]);
}

TEST_F(ReplayTest, EqualsTheLedgerOfSeveralThreads) {
  for (const char* const limit : {"share", "finish", "wait"}) {
    std::filesystem::remove(trace_);
    Record({{"finish_remaining_pct", "20"}, {"on_active_limit", limit}, {"gc_start_pct", "20"}},
           Load, 2);
    Read();
    ASSERT_EQ(mounts_.size(), 2U);
    for (const Mount& mount : mounts_) {
      Model model;
      RecordedPlayer player(&model);
      ASSERT_OK(player.Play(mount)) << limit;
      ExpectEqual(model, mount.ledger);
      EXPECT_GT(model.totals().finishes[0].count, 0U);
      EXPECT_GT(model.totals().resets_data, 48U);  // more than one reset per zone
      EXPECT_GT(model.collected_zones(), 0U);
      // Only one thread collects at a time.
      const nlohmann::json ledger = nlohmann::json::parse(mount.ledger);
      EXPECT_GT(ledger["collecting_ns"], 0);
      EXPECT_LT(ledger["collecting_ns"], ledger["t"].get<double>() * 1e9);
    }
  }
}

// One table that finishes its zone. Later mounts find this zone written to its end.
void WriteOne(FileSystem* fs) {
  std::mt19937_64 random(1);
  WriteFile(fs, "/kept.sst", 100 << 10, &random);
}

TEST_F(ReplayTest, EarlierMountsGaveUpWhatTheyGaveUp) {
  const auto device = MakeDevice(kShape);
  ASSERT_OK(Mkfs(device.get(), Policy{}, ""));
  const OptionMap options = {{"finish_remaining_pct", "90"}};
  Record(device.get(), device->geometry().identity, options, WriteOne);
  Record(device.get(), device->geometry().identity, options, [](FileSystem*) {});
  Record(device.get(), device->geometry().identity, options, [](FileSystem* fs) {
    ASSERT_OK(fs->DeleteFile("/kept.sst", IOOptions(), nullptr));
    WriteOne(fs);
  });
  Read();
  ASSERT_EQ(mounts_.size(), 3U);
  Model model;
  RecordedPlayer player(&model);
  ASSERT_OK(player.Play(mounts_[0]));
  const SpaceUse first = player.space();
  EXPECT_GT(first.given_up, 0U);
  ASSERT_OK(player.Play(mounts_[1]));
  EXPECT_EQ(player.space().given_up, first.given_up);
  EXPECT_EQ(player.space().garbage, first.garbage);
  EXPECT_EQ(SpaceOf(model.allocator()).garbage, first.garbage + first.given_up);  // the ledger's
  ASSERT_OK(player.Play(mounts_[2]));
  ASSERT_EQ(model.totals().resets_data, 1U);
  EXPECT_EQ(player.space().given_up, first.given_up);  // of the new table alone
}

TEST_F(ReplayTest, DivergesAtAnotherPolicy) {
  Record({{"finish_remaining_pct", "20"}});
  Read();
  mounts_[0].policy.finish_remaining_pct = 0;
  Model model;
  RecordedPlayer player(&model);
  const IOStatus status = player.Play(mounts_[0]);
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

TEST_F(ReplayTest, OtherThresholdsGiveUpMore) {
  Record({}, LoadWithRoom);
  Read();
  std::uint64_t before = 0;
  for (const std::uint8_t remaining : std::initializer_list<std::uint8_t>{0, 30, 70}) {
    Setting setting = SettingOf(mounts_[0]);
    setting.policy.finish_remaining_pct = remaining;
    Model model;
    CounterfactualPlayer player(&model);
    const auto infeasible = player.Play(mounts_[0], setting);
    if (infeasible) {
      EXPECT_EQ(remaining, 70) << infeasible->cause << " asked for " << infeasible->asked
                               << " at event " << infeasible->event << ", " << trace_;
      EXPECT_GT(infeasible->space.given_up, 0U);
      continue;
    }
    const std::uint64_t given_up = model.totals().finishes[0].given_up;
    EXPECT_EQ(given_up > before, remaining > 0);
    before = given_up;
    // The user's bytes must not change.
    EXPECT_EQ(model.totals().written[static_cast<std::size_t>(Cause::kWal)].payload,
              nlohmann::json::parse(mounts_[0].ledger)["written"]["wal"]["payload"]);
  }
  EXPECT_GT(before, 0U);
}

TEST_F(ReplayTest, SmallerDevicesCannotHoldTheData) {
  Record({});
  Read();
  Setting setting = SettingOf(mounts_[0]);
  setting.zones = 24;
  Model model;
  CounterfactualPlayer player(&model);
  const auto infeasible = player.Play(mounts_[0], setting);
  ASSERT_TRUE(infeasible);
  const SpaceUse& space = infeasible->space;
  EXPECT_EQ(space.capacity, (24U - kMetadataZones) * (192 << 10));
  EXPECT_EQ(space.capacity, space.live + space.pad + space.garbage + space.given_up + space.free);
}

TEST_F(ReplayTest, AnInfeasibleLayoutIsNoRequestOfTheRecording) {
  const auto device = MakeDevice(kShape);
  ASSERT_OK(Mkfs(device.get(), Policy{}, ""));
  const auto write = [](const std::string& name, int tables) {
    return [name, tables](FileSystem* fs) {
      std::mt19937_64 random(1);
      for (int i = 0; i < tables; ++i) {
        WriteFile(fs, "/" + name + std::to_string(i) + ".sst", 100 << 10, &random);
      }
    };
  };
  Record(device.get(), device->geometry().identity, {}, write("before", 25));
  std::filesystem::remove(trace_);
  Record(device.get(), device->geometry().identity, {}, write("after", 15));
  Read();
  Setting setting = SettingOf(mounts_[0]);
  const auto played = [&](std::uint32_t zones) {
    setting.zones = zones;
    Model model;
    return CounterfactualPlayer(&model).Play(mounts_[0], setting);
  };
  const auto layout = played(14);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->cause, "files from before the recording");
  EXPECT_EQ(layout->written, 0U);
  const auto later = played(20);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->cause, "compaction");
  EXPECT_GT(later->written, 0U);
  EXPECT_LT(later->written, 15U * (104 << 10));
}

TEST_F(ReplayTest, IsDeterministic) {
  Record({}, LoadWithRoom);
  Read();
  std::vector<std::string> ledgers;
  for (int i = 0; i < 2; ++i) {
    Setting setting = SettingOf(mounts_[0]);
    setting.zone_capacity /= 2;
    setting.zones *= 2;
    Model model;
    CounterfactualPlayer player(&model);
    ASSERT_FALSE(player.Play(mounts_[0], setting));
    ledgers.push_back(LedgerCounts(model.totals(), model.collected_zones(),
                                   SpaceOf(model.allocator()), model.retired())
                          .dump());
  }
  EXPECT_EQ(ledgers[0], ledgers[1]);
}

TEST_F(ReplayTest, DamageIsRefused) {
  Record({});
  EXPECT_EQ(ErrorOf([](std::string*) {}), "");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->clear(); }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->resize(bytes->size() - 1); }), "unfinished");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { (*bytes)[bytes->size() / 2] ^= 1; }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { (*bytes)[3] ^= 1; }), "bad-trace");
  EXPECT_EQ(ErrorOf([](std::string* bytes) { bytes->append("x"); }), "unfinished");
}

}  // namespace
}  // namespace zlfs::replay
