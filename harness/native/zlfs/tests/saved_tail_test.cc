// Saved ends of WALs. They survive a kill outside the device.

#include "zlfs/meta/saved_tail.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "zlfs/format/sealed.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/faulty_device.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

constexpr const char* kShape = "zones=40&zone_size=1M&max_active=14&cache=volatile";

// A WAL in a volume, and the content that it must have.
struct Log {
  std::unique_ptr<Volume> volume;
  std::shared_ptr<File> file = nullptr;
  std::string content = {};

  void Append(std::uint64_t size) {
    const std::string more = Content(3, content.size(), size);
    ASSERT_OK(volume->writer().Append(file.get(), more));
    content += more;
  }
  void AppendAndSave(std::uint64_t size) {
    Append(size);
    ASSERT_OK(volume->writer().SaveBuffer(file.get()));
  }
};

// Runs in a folder whose files are mapped, and in one of any file system.
class SavedTailTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string FileOf(std::uint64_t file) const {
    for (const auto& volume : std::filesystem::directory_iterator(folder_)) {
      return volume.path() / std::to_string(file);
    }
    return "";
  }
  std::string BytesOf(std::uint64_t file) const {
    std::ifstream stream(FileOf(file), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void SetBytesOf(std::uint64_t file, const std::string& bytes) const {
    std::ofstream(FileOf(file), std::ios::binary | std::ios::trunc) << bytes;
  }

  // Mounts the device, formatted by the first call, with the tails of the folder.
  std::unique_ptr<Volume> Mount() {
    if (device_ == nullptr) {
      device_ = MakeDevice(kShape);
      identity_ = device_->geometry().identity;
      EXPECT_OK(Mkfs(device_.get(), Policy{}, ""));
    }
    return MountOk(Opened(device_), {.tails_path = folder_});
  }
  Log MakeLog() {
    Log log{.volume = Mount()};
    log.file = Create(log.volume.get(), "/1.log", FileKind::kLog, LogPlacement());
    return log;
  }

  // A mount of the device as a kill would leave it, with the tails of the folder.
  std::unique_ptr<Volume> MountKilled(bool lost_power = false) {
    std::unique_ptr<EmulatedDevice> killed = Clone();
    if (lost_power) EmulatedFaults::PowerLoss(*killed, {});
    // The original continues to use its folder.
    const std::string copy = folder_ + "-killed";
    std::filesystem::remove_all(copy);
    if (!lost_power) std::filesystem::copy(folder_, copy, std::filesystem::copy_options::recursive);
    auto volume = MountOk(Opened(std::move(killed)), {.tails_path = copy});
    std::filesystem::remove_all(copy);
    return volume;
  }
  // Kills the process of a volume: the volume's close has no effect.
  void Kill(std::unique_ptr<Volume> volume) {
    std::unique_ptr<EmulatedDevice> killed = Clone();
    const std::string copy = folder_ + "-killed";
    std::filesystem::copy(folder_, copy, std::filesystem::copy_options::recursive);
    volume.reset();
    std::filesystem::remove_all(folder_);
    std::filesystem::rename(copy, folder_);
    device_ = std::move(killed);
  }

  void Kill(Log* log) {
    log->file.reset();
    Kill(std::move(log->volume));
  }

  std::unique_ptr<EmulatedDevice> Clone() {
    std::unique_ptr<EmulatedDevice> clone;
    EXPECT_OK(EmulatedFaults::Clone(*device_, "killed-" + std::to_string(++clones_), &clone));
    return clone;
  }
  std::unique_ptr<ZonedDevice> Opened(std::shared_ptr<EmulatedDevice> device) const {
    return std::make_unique<HookedDevice>(std::move(device), identity_, [] {});
  }
  static std::string Loaded(const SavedTails& tails, std::uint64_t file, std::uint64_t from) {
    std::string tail;
    EXPECT_OK(tails.Load(file, from, &tail));
    return tail;
  }

  const std::string folder_ = GetParam() + "zlfs-saved-tail-" + std::to_string(getpid());
  const std::array<char, 16> volume_ = {'v'};
  std::shared_ptr<EmulatedDevice> device_;
  std::string identity_;
  int clones_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Mapped, SavedTailTest, testing::Values(std::string("/dev/shm/")));
INSTANTIATE_TEST_SUITE_P(Any, SavedTailTest, testing::Values(testing::TempDir()));

// Ends each write of a file at `size` bytes: stands for a full file system.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t size) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small = {.rlim_cur = size, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*const action_)(int);
  rlimit before_ = {};
};

TEST(MappedTailTest, IsSavedWithoutASystemCall) {
  const std::string folder = "/dev/shm/zlfs-mapped-tail-" + std::to_string(getpid());
  SavedTails tails;
  tails.Begin(folder, {'v'});
  const auto tail = tails.New(7);
  const std::string content = Content(1, 0, SavedTail::kMapped);
  // The first two blocks fill the mapped bytes.
  const std::size_t first = 1000;
  const std::size_t most = SavedTail::kMapped - 2 * kHeaderSize;
  {
    const FileSizeLimit limit(0);
    ASSERT_OK(tail->Save(0, content.substr(0, first)));
    ASSERT_OK(tail->Save(0, content.substr(0, most)));
    EXPECT_FALSE(tail->Save(0, content).ok());
  }
  std::string loaded;
  EXPECT_OK(tails.Load(7, 0, &loaded));
  EXPECT_EQ(loaded, content.substr(0, most));
  std::filesystem::remove_all(folder);
}

TEST_P(SavedTailTest, CanBeLargerThanTheMappedBytes) {
  SavedTails tails;
  tails.Begin(folder_, volume_);
  const auto tail = tails.New(7);
  const std::string content = Content(1, 0, SavedTail::kMapped + 10);
  for (const std::size_t size :
       {std::size_t{1000}, SavedTail::kMapped - 2 * kHeaderSize + 1, content.size()}) {
    ASSERT_OK(tail->Save(0, content.substr(0, size)));
    EXPECT_EQ(Loaded(tails, 7, 0), content.substr(0, size)) << size;
  }
}

TEST_P(SavedTailTest, IsTheTailWithAllAdditions) {
  SavedTails tails;
  tails.Begin(folder_, volume_);
  const auto tail = tails.New(7);
  std::string content;
  for (std::uint64_t i = 0; i < 20; ++i) {
    content += Content(1, content.size(), i * 100);  // the first one is empty
    ASSERT_OK(tail->Save(500, content));
    EXPECT_EQ(Loaded(tails, 7, 500), content) << i;
  }
  // Part of it is on the device already, or more than all of it, or something before it is missing.
  EXPECT_EQ(Loaded(tails, 7, 600), content.substr(100));
  EXPECT_EQ(Loaded(tails, 7, 500 + content.size() - 1), content.substr(content.size() - 1));
  EXPECT_EQ(Loaded(tails, 7, 500 + content.size()), "");
  EXPECT_EQ(Loaded(tails, 7, 499), "");
  EXPECT_EQ(Loaded(tails, 8, 500), "");
}

TEST_P(SavedTailTest, ALaterTailReplacesAnEarlierOne) {
  SavedTails tails;
  tails.Begin(folder_, volume_);
  const auto tail = tails.New(7);
  // Blocks of the same sizes, so that each one of the earlier chain follows one of the later chain.
  for (std::size_t size = 100; size <= 500; size += 100) {
    ASSERT_OK(tail->Save(0, Content(1, 0, size)));
  }
  for (std::size_t size = 100; size <= 300; size += 100) {
    ASSERT_OK(tail->Save(500, Content(1, 500, size)));
    EXPECT_EQ(Loaded(tails, 7, 500), Content(1, 500, size));
    EXPECT_EQ(Loaded(tails, 7, 0), "");
  }
}

TEST_P(SavedTailTest, EndsBeforeATornOrAlteredBlock) {
  SavedTails tails;
  tails.Begin(folder_, volume_);
  const auto tail = tails.New(7);
  ASSERT_OK(tail->Save(0, Content(1, 0, 100)));
  const std::size_t first = kHeaderSize + 100;
  ASSERT_OK(tail->Save(0, Content(1, 0, 250)));
  const std::string bytes = BytesOf(7).substr(0, first + kHeaderSize + 150);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    SetBytesOf(7, bytes.substr(0, size));
    ASSERT_EQ(Loaded(tails, 7, 0), Content(1, 0, size < first ? 0 : 100)) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    SetBytesOf(7, altered);
    ASSERT_EQ(Loaded(tails, 7, 0), Content(1, 0, at < first ? 0 : 100)) << at;
  }
}

TEST_P(SavedTailTest, IsOfOneFileAndOneVolume) {
  SavedTails tails;
  tails.Begin(folder_, volume_);
  ASSERT_OK(tails.New(7)->Save(0, "content"));
  std::filesystem::copy_file(FileOf(7), FileOf(8));
  EXPECT_EQ(Loaded(tails, 8, 0), "");
  const std::string bytes = BytesOf(7);
  tails.Keep({8});
  EXPECT_FALSE(std::filesystem::exists(FileOf(7)));
  EXPECT_TRUE(std::filesystem::exists(FileOf(8)));
  std::filesystem::remove_all(folder_);
  SavedTails other;
  other.Begin(folder_, {'w'});
  ASSERT_OK(other.New(7)->Save(0, "other"));
  SetBytesOf(7, bytes);
  EXPECT_EQ(Loaded(other, 7, 0), "");
}

TEST_P(SavedTailTest, IsOfOneBoot) {
  SavedTails before;
  before.Begin(folder_, volume_, "one boot");
  ASSERT_OK(before.New(7)->Save(0, "content"));
  SavedTails after;
  after.Begin(folder_, volume_, "the next boot");
  EXPECT_EQ(Loaded(after, 7, 0), "");
  SavedTails same;
  same.Begin(folder_, volume_, "one boot");
  EXPECT_EQ(Loaded(same, 7, 0), "content");
  EXPECT_FALSE(BootId().empty());
}

TEST_P(SavedTailTest, IsNothingWithoutAFolder) {
  SavedTails tails;
  EXPECT_EQ(tails.New(7), nullptr);
  EXPECT_EQ(Loaded(tails, 7, 0), "");
  tails.Begin("", volume_);
  EXPECT_EQ(tails.New(7), nullptr);
  tails.Begin("/proc/none", volume_);
  EXPECT_EQ(tails.New(7), nullptr);
  tails.Begin(folder_, volume_, "");
  EXPECT_EQ(tails.New(7), nullptr);
}

// --- in a volume ---

TEST_P(SavedTailTest, AnUnsyncedWriteCostsNoBlockAndSurvivesAKill) {
  Log log = MakeLog();
  log.AppendAndSave(400);
  const std::uint64_t before = device_->counters().bytes_written;
  for (int i = 0; i < 50; ++i) log.AppendAndSave(400);
  EXPECT_EQ(device_->counters().bytes_written, before);
  // Larger tails go to the device; then the saved one begins behind them.
  for (int i = 0; i < 40; ++i) {
    log.AppendAndSave(3000);
    const auto after = MountKilled();
    ASSERT_EQ(ReadWhole(after.get(), "/1.log"), log.content) << i;
  }
  const Totals::Bytes wal = log.volume->totals().written[static_cast<std::size_t>(Cause::kWal)];
  EXPECT_GT(wal.payload, 100000U);
  EXPECT_LT(wal.pad, 10000U);
}

TEST_P(SavedTailTest, APowerLossTakesTheTailAndNothingElse) {
  Log log = MakeLog();
  log.Append(5000);
  ASSERT_OK(log.volume->writer().Sync(log.file.get()));
  log.AppendAndSave(1);  // follows a sync, and goes to the device
  log.AppendAndSave(400);
  const std::string left = ReadWhole(MountKilled(true).get(), "/1.log");
  EXPECT_GE(left.size(), 5000U);
  EXPECT_LE(left.size(), 5001U);
  EXPECT_TRUE(log.content.starts_with(left));
}

// A tail that is full goes to a new log zone. Until the metadata log names this zone, only the
// saved tail has the content.
TEST_P(SavedTailTest, IsKeptUntilTheLogNamesTheZone) {
  Log log = MakeLog();
  log.AppendAndSave(50000);
  const std::string saved = log.content;
  log.Append(kTailBytes);  // fills the buffer
  EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), saved);
  log.AppendAndSave(10);
  EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), log.content);
}

TEST_P(SavedTailTest, IsRemovedWhenTheLogIsOnTheDevice) {
  Log log = MakeLog();
  log.AppendAndSave(400);
  EXPECT_TRUE(std::filesystem::exists(FileOf(log.file->id)));
  ASSERT_OK(log.volume->writer().FinishWriting(log.file.get()));
  EXPECT_FALSE(std::filesystem::exists(FileOf(log.file->id)));
  EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), log.content);
}

TEST_P(SavedTailTest, ASyncedWriteGoesToTheDeviceAtOnce) {
  Log log = MakeLog();
  log.AppendAndSave(400);
  ASSERT_OK(log.volume->writer().Sync(log.file.get()));
  const std::string before = BytesOf(log.file->id);
  for (int i = 0; i < 10; ++i) {
    log.AppendAndSave(400);
    ASSERT_OK(log.volume->writer().Sync(log.file.get()));
    EXPECT_EQ(BytesOf(log.file->id), before);  // not saved first
  }
  EXPECT_EQ(ReadWhole(MountKilled(true).get(), "/1.log"), log.content);
}

// As APowerLossLeavesNoGapBetweenLogs, for WALs that are not closed and not synced.
TEST_P(SavedTailTest, EarlierTailsReachTheDeviceBeforeALaterLog) {
  const auto volume = Mount();
  std::vector<std::shared_ptr<File>> logs;
  for (const char* const name : {"/1.log", "/2.log", "/3.log"}) {
    logs.push_back(Create(volume.get(), name, FileKind::kLog, LogPlacement()));
    ASSERT_OK(volume->writer().Append(logs.back().get(), Content(1, 0, 400)));
    ASSERT_OK(volume->writer().SaveBuffer(logs.back().get()));
  }
  ASSERT_OK(volume->writer().Sync(logs[2].get()));
  const auto after = MountKilled(true);
  for (const char* const name : {"/1.log", "/2.log", "/3.log"}) {
    EXPECT_EQ(ReadWhole(after.get(), name), Content(1, 0, 400)) << name;
  }
}

// The same for tails that a kill left and that no writer has open.
TEST_P(SavedTailTest, ATailThatAKillLeftReachesTheDeviceBeforeALaterLog) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  Kill(&killed);
  // It stays there, however often the database is opened and killed.
  for (int kill = 0; kill < 3; ++kill) {
    EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), Content(3, 0, 400));
    Kill(Mount());
  }
  const auto volume = Mount();
  const auto log = Create(volume.get(), "/2.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(volume->writer().Append(log.get(), Content(2, 0, 400)));
  EXPECT_EQ(ReadWhole(MountKilled(true).get(), "/1.log"), "");
  ASSERT_OK(volume->writer().Sync(log.get()));
  const auto after = MountKilled(true);
  EXPECT_EQ(ReadWhole(after.get(), "/1.log"), Content(3, 0, 400));
  EXPECT_EQ(ReadWhole(after.get(), "/2.log"), Content(2, 0, 400));
}

// No writer has these logs open, so a deletion can come while a later log writes their ends.
TEST_P(SavedTailTest, ALogDeletedWhileItsEndIsWrittenKeepsNoSpace) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  killed.file = Create(killed.volume.get(), "/2.log", FileKind::kLog, LogPlacement());
  killed.AppendAndSave(400);
  Kill(&killed);
  bool armed = false;
  Volume* mounted = nullptr;
  const auto hook = [&armed, &mounted] {
    if (!std::exchange(armed, false)) return;
    EXPECT_OK(mounted->files().Delete("/2.log"));
  };
  const auto volume =
      MountOk(std::make_unique<HookedDevice>(device_, identity_, hook), {.tails_path = folder_});
  ASSERT_NE(volume, nullptr);
  mounted = volume.get();
  auto log = Create(volume.get(), "/3.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(volume->writer().Append(log.get(), "x"));
  armed = true;  // the next command belongs to the write of the end of /1.log
  ASSERT_OK(volume->writer().Sync(log.get()));
  EXPECT_FALSE(armed);
  log.reset();
  for (const char* const name : {"/1.log", "/3.log"}) ASSERT_OK(volume->files().Delete(name));
  ASSERT_OK(volume->files().SyncNames());
  EXPECT_EQ(volume->Space().live, 0U);
}

// After a close, a restart of the system loses nothing.
TEST_P(SavedTailTest, ACloseWritesTheTailThatAKillLeft) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  Kill(&killed);
  ASSERT_OK(Mount()->Close());
  EXPECT_EQ(ReadWhole(MountKilled(true).get(), "/1.log"), killed.content);
}

TEST_P(SavedTailTest, ATailThatCannotBeReadIsNotDropped) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  const std::string file = FileOf(killed.file->id);
  Kill(&killed);
  std::filesystem::rename(file, folder_ + "/moved");
  std::filesystem::create_directory(file);  // a read of it fails
  std::unique_ptr<Volume> volume;
  EXPECT_TRUE(Volume::Mount(Opened(device_), {.tails_path = folder_}, &volume).IsIOError());
  std::filesystem::remove(file);
  std::filesystem::rename(folder_ + "/moved", file);
  EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), killed.content);
}

// The volume has no allocator yet when it ends.
TEST_P(SavedTailTest, AMountThatCannotReadATailEndsItsTrace) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  const std::string file = FileOf(killed.file->id);
  Kill(&killed);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);  // a read of it fails
  const std::string trace = folder_ + "/trace";
  std::unique_ptr<Volume> volume;
  EXPECT_TRUE(Volume::Mount(Opened(device_), {.trace_path = trace, .tails_path = folder_}, &volume)
                  .IsIOError());
}

TEST_P(SavedTailTest, AMountThatBecomesReadOnlyWritesNoTails) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  Kill(&killed);
  const auto written = [this] {
    std::vector<ZoneInfo> zones;
    EXPECT_OK(device_->Report(kMetadataZones, 40 - kMetadataZones, &zones));
    std::uint64_t sum = 0;
    for (const ZoneInfo& zone : zones) sum += zone.write_pointer;
    return sum;
  };
  const std::uint64_t before = written();
  // The empty metadata zones are too small for the roll-over.
  std::vector<ZoneInfo> metadata;
  ASSERT_OK(device_->Report(0, kMetadataZones, &metadata));
  const auto capacities = std::make_shared<FaultyDevice::Capacities::element_type>();
  for (std::uint32_t zone = 0; zone < kMetadataZones; ++zone) {
    if (metadata[zone].write_pointer == 0) (*capacities)[zone] = device_->geometry().block_size;
  }
  const auto inner = Opened(device_);
  {
    const auto volume =
        MountOk(std::make_unique<FaultyDevice>(inner.get(), capacities), {.tails_path = folder_});
    ASSERT_NE(volume, nullptr);
    EXPECT_TRUE(volume->why_read_only().starts_with("metadata-full"));
    EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), killed.content);
  }
  EXPECT_EQ(written(), before);
  EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), killed.content);
}

// Its saved tail is older than the pieces that cannot be read.
TEST_P(SavedTailTest, AWalWhoseZoneCannotBeReadForAMomentKeepsItsPieces) {
  Log killed = MakeLog();
  killed.AppendAndSave(400);
  killed.Append(5000);
  ASSERT_OK(killed.volume->writer().Sync(killed.file.get()));
  const std::uint32_t zone = killed.file->extents.back().zone;
  // A later WAL fills the zone. Its pieces in the next zone have higher numbers.
  auto other = Create(killed.volume.get(), "/2.log", FileKind::kLog, LogPlacement());
  ASSERT_OK(killed.volume->writer().Append(other.get(), Content(2, 0, 3 << 19)));
  ASSERT_OK(killed.volume->writer().Sync(other.get()));
  ASSERT_NE(other->extents.back().zone, zone);
  other.reset();
  Kill(&killed);
  EmulatedFaults::BreakZone(*device_, zone, ZoneCondition::kOffline);
  {
    const auto volume = Mount();
    const auto log = Create(volume.get(), "/3.log", FileKind::kLog, LogPlacement());
    ASSERT_OK(volume->writer().Append(log.get(), Content(3, 0, 400)));
    ASSERT_OK(volume->writer().Sync(log.get()));
  }
  EmulatedFaults::BreakZone(*device_, zone, ZoneCondition::kFull);
  const auto volume = Mount();
  ASSERT_NE(volume, nullptr);
  EXPECT_EQ(ReadWhole(volume.get(), "/1.log"), killed.content);
}

TEST_P(SavedTailTest, AFolderWithoutTailsIsRemoved) {
  {
    Log log = MakeLog();
    log.AppendAndSave(400);
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder_));  // its WAL was not closed
  ASSERT_OK(Mount()->files().Delete("/1.log"));
  Mount();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_P(SavedTailTest, WithoutRoomInTheFolderTheDeviceGetsTheTail) {
  Log log = MakeLog();
  const FileSizeLimit limit(1000);  // a write stops short, the next one fails
  for (int i = 0; i < 4; ++i) {
    log.AppendAndSave(400);
    EXPECT_EQ(ReadWhole(MountKilled().get(), "/1.log"), log.content) << i;
  }
}

}  // namespace
}  // namespace zlfs
