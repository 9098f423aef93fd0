// Compares counterfactual replays with real volumes. The writes, closes, deletions and syncs of a
// trace are applied one by one to a volume on an emulated device. The volume has another setting
// than the recorded one. Replay and volume must have equal counts.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "replay/counterfactual.h"
#include "replay/model.h"
#include "replay/trace.h"
#include "zlfs/format/sealed.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs::replay {
namespace {

// Applies the events of a mount to a volume.
class Puppeteer {
 public:
  Puppeteer(Volume* volume, const Mount& mount) : volume_(volume), mount_(mount) {}

  void Play() {
    for (std::size_t i = 0; i < mount_.events.size(); ++i) {
      if (const auto* const ask = std::get_if<AskEvent>(&mount_.events[i])) Take(*ask);
      if (const auto* const step = std::get_if<StepEvent>(&mount_.events[i])) Take(*step);
    }
  }

 private:
  struct Writing {
    std::shared_ptr<File> file;
    std::string name;
    std::uint64_t again = 0;  // bytes that the recorded writer requests again
  };

  void Take(const AskEvent& ask) {
    if (static_cast<Cause>(ask.cause) == Cause::kGc) return;
    Writing& writing = files_[ask.subject];
    if (writing.file == nullptr) {
      writing.name = "/" + std::to_string(ask.subject);
      ASSERT_OK(volume_->files().Create(writing.name, ask.kind, &writing.file));
      volume_->writer().SetPlacement(
          writing.file.get(),
          {.cause = static_cast<Cause>(ask.cause), .job = ask.job != 0, .lifetime = ask.lifetime});
    }
    const bool again = writing.again > 0;
    const std::uint64_t head = ask.kind == FileKind::kLog ? kHeaderSize : 0;
    const bool granted = static_cast<Decision::Kind>(ask.decision) == Decision::Kind::kGrant;
    writing.again = ask.content - (granted ? std::min(ask.content, ask.size - head) : 0);
    if (again) return;  // the volume already has all the content
    ASSERT_OK(volume_->writer().Append(writing.file.get(), std::string(ask.content, 'x')));
    // Writes the rest, which stays in the buffer until a sync.
    ASSERT_OK(volume_->writer().Sync(writing.file.get()));
  }

  void Take(const StepEvent& event) {
    const auto step = static_cast<Step>(event.step);
    if (step == Step::kReclaim) {
      ASSERT_OK(volume_->files().SyncNames());
      return;
    }
    const auto found = files_.find(event.subject);
    if (found == files_.end()) return;
    if (step == Step::kLeft) {
      ASSERT_OK(volume_->writer().FinishWriting(found->second.file.get()));
    } else if (step == Step::kDeleted) {
      ASSERT_OK(volume_->files().Delete(found->second.name));
    } else if (step == Step::kGone) {
      files_.erase(found);
    }
  }

  Volume* const volume_;
  const Mount& mount_;
  std::map<std::uint64_t, Writing> files_;
};

// Records tables of 0.15 to 1.3 zones, with at most `alive` of them at a time.
void Record(const std::string& trace, std::size_t alive) {
  const auto device = MakeDevice("zones=66&zone_size=256K&max_active=12");
  ASSERT_OK(Mkfs(device.get(), Policy{}, ""));
  std::unique_ptr<ZonedDevice> handle = std::make_unique<HookedDevice>(
      std::shared_ptr<EmulatedDevice>(device.get(), [](EmulatedDevice*) {}),
      device->geometry().identity, [] {});
  const std::unique_ptr<Volume> volume =
      MountOk(std::move(handle),
              {.policy = {{"finish_occupancy_pct", "70"}}, .ledger_path = {}, .trace_path = trace});
  std::uint64_t random = 7;
  std::vector<std::string> kept;
  for (int i = 0; i < 900; ++i) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::string name = "/" + std::to_string(i);
    std::shared_ptr<File> file;
    ASSERT_OK(volume->files().Create(name, FileKind::kData, &file));
    volume->writer().SetPlacement(file.get(),
                                  DataPlacement(static_cast<std::uint8_t>(2 + (random >> 40) % 3),
                                                i % 3 == 0 ? Cause::kFlush : Cause::kCompaction));
    const std::size_t size = 40000 + (random >> 33) % 300000;
    ASSERT_OK(volume->writer().Append(file.get(), std::string(size, 'x')));
    ASSERT_OK(volume->writer().Sync(file.get()));
    ASSERT_OK(volume->writer().FinishWriting(file.get()));
    file.reset();
    kept.push_back(name);
    if (kept.size() < alive) continue;
    const auto gone = kept.begin() + static_cast<std::ptrdiff_t>((random >> 20) % kept.size());
    ASSERT_OK(volume->files().Delete(*gone));
    kept.erase(gone);
  }
  ASSERT_OK(volume->Close());
}

struct Counts {
  std::uint64_t pad = 0;
  std::uint64_t finishes = 0;
  std::uint64_t resets = 0;
  std::uint64_t collected = 0;
  std::uint64_t flushed = 0;

  explicit Counts(const Totals& totals)
      : pad(totals.finishes[0].given_up),
        finishes(totals.finishes[0].count),
        resets(totals.resets_data),
        collected(totals.written[static_cast<std::size_t>(Cause::kGc)].payload),
        flushed(totals.written[static_cast<std::size_t>(Cause::kFlush)].payload) {}
  bool operator==(const Counts&) const = default;
};

void PrintTo(const Counts& counts, std::ostream* to) {
  *to << counts.pad << " pad, " << counts.finishes << " finishes, " << counts.resets << " resets, "
      << counts.collected << " collected, " << counts.flushed << " flushed";
}

Counts Replayed(const Mount& mount, const Setting& setting) {
  Model model;
  CounterfactualPlayer player(&model);
  EXPECT_FALSE(player.Play(mount, setting));
  return Counts(model.totals());
}

Counts Lived(const Mount& mount, const Setting& setting) {
  const auto device = MakeDevice("zones=" + std::to_string(setting.zones) + "&zone_size=" +
                                 std::to_string(setting.zone_capacity) + "&max_active=12");
  EXPECT_OK(Mkfs(device.get(), setting.policy, ""));
  const std::unique_ptr<Volume> volume = MountOk(std::make_unique<HookedDevice>(
      std::shared_ptr<EmulatedDevice>(device.get(), [](EmulatedDevice*) {}),
      device->geometry().identity, [] {}));
  Puppeteer(volume.get(), mount).Play();
  EXPECT_OK(volume->Close());
  return Counts(volume->totals());
}

// Parameters: the number of live files, and finish thresholds that leave space for them.
class ReplayAndLife : public testing::TestWithParam<std::pair<std::size_t, std::vector<int>>> {};

TEST_P(ReplayAndLife, AreEqualAtOtherSettings) {
  const std::string trace = testing::TempDir() + "zlfs-live-" + std::to_string(getpid());
  std::filesystem::remove(trace);
  Record(trace, GetParam().first);
  std::vector<Mount> mounts;
  ASSERT_OK(ReadTrace(trace, &mounts));
  std::filesystem::remove(trace);
  ASSERT_EQ(mounts.size(), 1U);
  std::uint64_t collected = 0;
  for (const std::uint64_t capacity : {256U << 10, 128U << 10}) {
    for (const int threshold : GetParam().second) {
      Setting setting = SettingOf(mounts[0]);
      setting.zones = static_cast<std::uint32_t>(setting.zones * setting.zone_capacity / capacity);
      setting.zone_capacity = capacity;
      setting.policy.finish_occupancy_pct = static_cast<std::uint8_t>(threshold);
      setting.policy.finish_remaining_pct = static_cast<std::uint8_t>(100 - threshold);
      const Counts lived = Lived(mounts[0], setting);
      EXPECT_EQ(Replayed(mounts[0], setting), lived) << capacity << " " << threshold;
      collected += lived.collected;
    }
  }
  EXPECT_EQ(collected > 0, GetParam().first > 50);  // only the fuller device needs to collect
}

INSTANTIATE_TEST_SUITE_P(Fills, ReplayAndLife,
                         testing::Values(std::pair(30U, std::vector{0, 30, 50, 90, 100}),
                                         std::pair(58U, std::vector{80, 90, 100})));

}  // namespace
}  // namespace zlfs::replay
