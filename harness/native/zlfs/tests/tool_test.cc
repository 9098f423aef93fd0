// The program `zlfs`: output, refusals and exit status.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "coldfill/fill.h"
#include "zlfs/format/codec.h"
#include "zlfs/format/superblock.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

constexpr const char* kShape = "zones=40&zone_size=128K&zone_capacity=96K&max_active=8";
constexpr std::uint32_t kBlock = 4096;

std::string Contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class Tool : public testing::Test {
 protected:
  // Quotes the device specification. The other arguments must not need quoting, and can redirect
  // the output.
  int Run(const std::string& command, const std::string& device, const std::string& more = "") {
    const std::string line = std::string(ZLFS_TOOL) + " " + command +
                             (device.empty() ? " " : " '--device=" + device + "' ") + " >" +
                             (folder_ / "out").string() + " 2>" + (folder_ / "err").string() + " " +
                             more;
    const int status = std::system(line.c_str());
    out_ = Contents(folder_ / "out");
    err_ = Contents(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Expects exactly two lines: one that begins with the error's name, and a hint.
  void ExpectRefused(int exit, const std::string& name, const std::string& command,
                     const std::string& device, const std::string& more = "") {
    EXPECT_EQ(Run(command, device, more), exit) << command << ": " << err_;
    EXPECT_EQ(err_.rfind("zlfs: " + name, 0), 0U) << err_;
    EXPECT_NE(err_.find("\nhint: "), std::string::npos) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 2) << err_;
    EXPECT_EQ(out_, "");
  }

  std::string Spec(const std::string& name, const std::string& options = kShape) const {
    return "file:" + (folder_ / name).string() + (options.empty() ? "" : "?" + options);
  }
  std::unique_ptr<ZonedDevice> Open(const std::string& spec) {
    std::unique_ptr<ZonedDevice> device;
    EXPECT_OK(OpenDevice(spec, Access::kReadWrite, nullptr, &device));
    return device;
  }
  // Appends the block to the content of each zone.
  void Append(const std::string& spec, const std::string& block,
              std::initializer_list<std::uint32_t> zones = {0}) {
    const auto device = Open(spec);
    const AlignedBuffer buffer = AllocateAligned(block.size());
    block.copy(buffer.get(), block.size());
    for (const std::uint32_t zone : zones) {
      const std::uint64_t end = InfoOf(*device, zone).write_pointer;
      ASSERT_OK(device->Write(zone, end, Slice(buffer.get(), block.size())));
    }
  }
  nlohmann::json Json() const { return nlohmann::json::parse(out_); }

  TemporaryFolder folder_;
  std::string out_;
  std::string err_;
};

TEST_F(Tool, MakesFillsAndShows) {
  const std::string spec = Spec("d");
  const std::string aux = (folder_ / "aux" / "deep").string();
  ASSERT_EQ(Run("mkfs", spec, "--label=cell-7 --finish-remaining-pct=20 --gc=off --aux=" + aux), 0)
      << err_;
  EXPECT_TRUE(std::filesystem::is_directory(aux));
  ASSERT_EQ(Run("import", spec, "--name=/cold --size=409600 --seed=5 --progress --aux=" + aux), 0)
      << err_;
  EXPECT_EQ(Json(), nlohmann::json({{"name", "/cold"}, {"bytes", 409600}}));
  EXPECT_EQ(err_, "0\n");

  ASSERT_EQ(Run("df", spec, "--format=json"), 0) << err_;
  const nlohmann::json df = Json();
  EXPECT_EQ(df["label"], "cell-7");
  EXPECT_EQ(df["capacity_bytes"], 40 * (96 << 10));
  EXPECT_EQ(df["live_bytes"], 409600);
  EXPECT_EQ(df["free_bytes"], (40 - kMetadataZones - 4) * (96 << 10) - 409600);
  EXPECT_EQ(df["zones_active"], 2);  // the metadata log; cold data keeps no zone active
  EXPECT_EQ(df["zones_full"], 5);
  EXPECT_EQ(df["zones_empty"], 33);
  EXPECT_EQ(df["finish_remaining_pct"], 20);
  EXPECT_EQ(df["finish_occupancy_pct"], 80);
  EXPECT_EQ(df["finishes"], 1);
  EXPECT_EQ(df["gc"]["zones_reclaimed"], 0);

  ASSERT_EQ(Run("list", spec, "--format=json"), 0) << err_;
  EXPECT_EQ(Json()["files"][0]["name"], "/cold");
  EXPECT_EQ(Json()["files"][0]["size"], 409600);
  ASSERT_EQ(Run("dump", spec), 0) << err_;
  EXPECT_EQ(Json()["policy"]["gc"], false);
  ASSERT_EQ(Run("fsck", spec, "--format=json"), 0) << err_;
  EXPECT_TRUE(Json()["violations"].empty());
  for (const char* const reading : {"df", "list", "fsck"}) {
    ASSERT_EQ(Run(reading, spec), 0) << err_;
    EXPECT_NE(out_, "");
  }
  // The ledger contains the import and the capacity that the finished zone gave up.
  const auto ledger = nlohmann::json::parse(Contents(aux + "/ledger.jsonl"));
  EXPECT_EQ(ledger["written"]["import"]["payload"], 409600);
  EXPECT_EQ(ledger["finishes"]["import"]["given_up"], 5 * (96 << 10) - 409600);
}

TEST_F(Tool, ImportsWhatColdfillWrites) {
  const std::string spec = Spec("d", "zones=40&zone_size=1M&max_active=8");
  const std::string path = folder_ / "cold";
  constexpr std::uint64_t kBytes = (2 << 20) + 5 * kBlock;
  const auto written = coldfill::Write({.file = path, .bytes = kBytes, .seed = 42, .direct = false},
                                       [](std::uint64_t, double) {});
  ASSERT_EQ(written.error, 0);
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/seed --size=" + std::to_string(kBytes) + " --seed=42"), 0);
  ASSERT_EQ(Run("import", spec, "--name=/file --from=" + path), 0) << err_;
  const auto volume = MountOk(Open(spec));
  EXPECT_TRUE(ReadWhole(volume.get(), "/seed") == Contents(path));
  EXPECT_TRUE(ReadWhole(volume.get(), "/file") == Contents(path));
}

TEST_F(Tool, HelpHasAnExampleForEachCommand) {
  ASSERT_EQ(Run("--help", ""), 0);
  for (const char* const command : {"mkfs", "import", "df", "list", "dump", "fsck", "salvage"}) {
    ASSERT_EQ(Run(command, "", "--help"), 0);
    EXPECT_NE(out_.find(std::string("  zlfs ") + command + " --device="), std::string::npos);
  }
}

TEST_F(Tool, UsageErrors) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ExpectRefused(2, "", "", "");
  ExpectRefused(2, "", "grow", spec);
  ExpectRefused(2, "", "df", "");
  ExpectRefused(2, "", "df", spec, "--format=xml");
  ExpectRefused(2, "", "import", spec, "--name=/a");
  ExpectRefused(2, "", "import", spec, "--name=/a --size=4096");
  ExpectRefused(2, "", "import", spec, "--name=/a --size=4096 --seed=1 --from=x");
  ExpectRefused(2, "bad-option", "import", spec, "--name=/a --size=100 --seed=1");
  ExpectRefused(2, "bad-name", "import", spec, "--name=a --size=4096 --seed=1");
  ExpectRefused(2, "bad-option", "mkfs", Spec("new"), "--gc-victim=worst");
  ExpectRefused(2, "bad-label", "mkfs", Spec("new"), "--label=" + std::string(32, 'x'));
  ExpectRefused(2, "bad-spec", "df", "tape:x");
  for (const char* const command : {"mkfs", "df", "list", "dump", "fsck"}) {
    ExpectRefused(2, "unknown-option", command, spec + "&nonsense=1");
  }
}

TEST_F(Tool, DevicesThatAreRefused) {
  for (const char* const command : {"mkfs", "df", "list", "dump", "fsck"}) {
    ExpectRefused(3, "not-zoned", command, "/dev/null");
    ExpectRefused(3, "missing", command, "/dev/no-such-device");
  }
  ExpectRefused(3, "too-few-zones: 15, needed are 16", "mkfs",
                Spec("few", "zones=15&zone_size=128K&max_active=8"));
  ExpectRefused(3, "limits-too-small: 5 active zones, needed are 6", "mkfs",
                Spec("tight", "zones=40&zone_size=128K&max_active=5"));
  std::ofstream(folder_ / "text") << std::string(100000, 'x');
  ExpectRefused(3, "bad-image", "df", Spec("text", ""));
}

TEST_F(Tool, DataThatIsNotOursIsNotTouched) {
  const std::string spec = Spec("d");
  Append(spec, std::string(kBlock, 'x'));
  for (const char* const command : {"df", "list", "dump"}) {
    ExpectRefused(3, "wrong-magic", command, spec);
  }
  ExpectRefused(3, "wrong-magic", "import", spec, "--name=/a --size=4096 --seed=1");
  EXPECT_EQ(Run("fsck", spec), 1);
  ExpectRefused(3, "not-empty", "mkfs", spec);
  ExpectRefused(3, "not-empty", "mkfs", spec, "--erase=file.0");
  std::string identity;
  {
    const auto device = Open(spec);
    EXPECT_EQ(ReadZone(*device, 0, 0, kBlock), std::string(kBlock, 'x'));
    identity = device->geometry().identity;
  }
  EXPECT_NE(err_.find(identity), std::string::npos) << err_;
  EXPECT_EQ(Run("mkfs", spec, "--erase=" + identity), 0) << err_;
  EXPECT_EQ(Run("fsck", spec), 0) << out_;
}

TEST_F(Tool, NewerVersionsAndBrokenRecords) {
  const std::string newer = Spec("newer");
  Superblock superblock;
  superblock.block_size = kBlock;
  std::string block = EncodeSuperblock(superblock);
  constexpr std::uint32_t kNewer = kFormatVersion + 1;
  std::memcpy(block.data() + 8, &kNewer, sizeof(kNewer));
  Append(newer, block);
  ExpectRefused(3, "newer-version", "df", newer);
  ExpectRefused(3, "newer-version", "import", newer, "--name=/a --size=4096 --seed=1");

  const std::string corrupt = Spec("corrupt");
  ASSERT_EQ(Run("mkfs", corrupt), 0) << err_;
  Append(corrupt, std::string(kBlock, 'x'), {0, 1});  // mkfs writes both copies to these zones
  ExpectRefused(4, "corrupt-frame", "df", corrupt);
  ExpectRefused(4, "corrupt-frame", "import", corrupt, "--name=/a --size=4096 --seed=1");
  EXPECT_EQ(Run("fsck", corrupt, "--format=json"), 1);
  EXPECT_EQ(Json()["violations"][0]["invariant"], 2);
}

TEST_F(Tool, ReadsBesideAWriterAndWritesAlone) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  const auto volume = MountOk(Open(spec));
  for (const char* const command : {"df", "list", "dump", "fsck"}) {
    EXPECT_EQ(Run(command, spec), 0) << err_;
  }
  ExpectRefused(3, "busy", "mkfs", spec, "--erase=" + volume->superblock().identity());
  ExpectRefused(3, "busy", "import", spec, "--name=/a --size=4096 --seed=1");
}

// A writer can fill zones again while their content is copied.
TEST_F(Tool, SalvageReadsAlone) {
  const std::string spec = Spec("d");
  const std::string to = folder_ / "saved";
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=4096 --seed=1"), 0) << err_;
  auto volume = MountOk(Open(spec));
  ExpectRefused(3, "busy", "salvage", spec, "--to=" + to);
  EXPECT_FALSE(std::filesystem::exists(to));
  volume.reset();
  ASSERT_EQ(Run("salvage", spec, "--to=" + to), 0) << err_;
  EXPECT_EQ(Contents(to + "/a").size(), 4096U);

  // Meanwhile nothing can write.
  std::unique_ptr<ZonedDevice> device;
  ASSERT_OK(OpenDevice(Spec("d", ""), Access::kReadAlone, nullptr, &device));
  ExpectRefused(3, "busy", "import", spec, "--name=/b --size=4096 --seed=1");
  EXPECT_EQ(Run("list", spec), 0) << err_;
}

TEST_F(Tool, ImportNeverOverwritesAndLeavesNothingOfAFailure) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=4096 --seed=1"), 0) << err_;
  ExpectRefused(3, "exists", "import", spec, "--name=/a --size=4096 --seed=2");
  ExpectRefused(3, "missing", "import", spec, "--name=/b --from=/no/such/file");
  ExpectRefused(4, "no-space", "import", spec, "--name=/b --size=104857600 --seed=1");
  ASSERT_EQ(Run("list", spec, "--format=json"), 0);
  EXPECT_EQ(Json()["files"].size(), 1U);
  EXPECT_EQ(Run("fsck", spec), 0) << out_;
}

TEST_F(Tool, ZonesThatTheDeviceGaveUp) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=200704 --seed=1"), 0) << err_;
  const auto give_up = [&](std::uint32_t zone, ZoneCondition condition) {
    const auto device = Open(spec);
    EmulatedFaults::BreakZone(dynamic_cast<EmulatedDevice&>(*device), zone, condition);
  };
  give_up(20, ZoneCondition::kReadOnly);  // empty: no data is lost
  EXPECT_EQ(Run("fsck", spec), 0) << out_;
  give_up(kMetadataZones, ZoneCondition::kOffline);
  EXPECT_EQ(Run("df", spec), 0) << err_;
  EXPECT_EQ(Run("fsck", spec, "--format=json"), 1);
  EXPECT_EQ(Json()["violations"][0]["invariant"], 10);
  give_up(0, ZoneCondition::kOffline);
  give_up(1, ZoneCondition::kOffline);
  give_up(2, ZoneCondition::kOffline);
  ExpectRefused(4, "lost-log", "df", spec);
  ExpectRefused(4, "lost-log", "import", spec, "--name=/b --size=4096 --seed=1");
  ExpectRefused(4, "lost-log", "salvage", spec, "--to=" + (folder_ / "saved").string());
  EXPECT_EQ(Run("fsck", spec), 1);
  EXPECT_EQ(out_.rfind(" 9  lost-log", 0), 0U) << out_;
}

TEST_F(Tool, SalvageCopiesWhatCanBeReadAndNamesTheRest) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/db/a --size=200704 --seed=1"), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/db/b --size=4096 --seed=2"), 0) << err_;
  const std::string whole = (folder_ / "whole").string();
  ASSERT_EQ(Run("salvage", spec, "--format=json --to=" + whole), 0) << err_;
  const std::string a = Contents(whole + "/db/a");
  ASSERT_EQ(a.size(), 200704U);
  EXPECT_EQ(Contents(whole + "/db/b").size(), 4096U);
  ExpectRefused(3, "exists", "salvage", spec, "--to=" + whole);

  EmulatedFaults::BreakZone(dynamic_cast<EmulatedDevice&>(*Open(spec)), kMetadataZones + 1,
                            ZoneCondition::kOffline);
  const std::string other = (folder_ / "other").string();
  std::filesystem::create_directories(other + "/db");
  std::ofstream(other + "/db/a.damaged") << "other";
  ExpectRefused(3, "exists", "salvage", spec, "--to=" + other);
  EXPECT_EQ(Contents(other + "/db/a.damaged"), "other");
  const std::string part = (folder_ / "part").string();
  EXPECT_EQ(Run("salvage", spec, "--format=json --to=" + part), 1) << err_;
  const nlohmann::json file = Json()["files"][0];
  EXPECT_EQ(file["name"], "/db/a");
  ASSERT_EQ(file["losses"].size(), 1U);
  EXPECT_EQ(file["losses"][0].get<std::string>().rfind("bytes 98304 to 196608: ", 0), 0U);
  const std::string damaged = Contents(part + "/db/a.damaged");
  ASSERT_EQ(damaged.size(), a.size());
  EXPECT_EQ(damaged.substr(0, 98304), a.substr(0, 98304));
  EXPECT_EQ(damaged.substr(196608), a.substr(196608));
  EXPECT_EQ(Contents(part + "/db/b"), Contents(whole + "/db/b"));
}

// Salvage reads parts of 1 MiB.
TEST_F(Tool, SalvageNamesARangeOfSeveralPartsOnce) {
  const std::string spec = Spec("d", "zones=20&zone_size=2M&max_active=8");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=5242880 --seed=1"), 0) << err_;
  EmulatedFaults::BreakZone(dynamic_cast<EmulatedDevice&>(*Open(spec)), kMetadataZones + 1,
                            ZoneCondition::kOffline);
  EXPECT_EQ(Run("salvage", spec, "--format=json --to=" + (folder_ / "saved").string()), 1) << err_;
  const nlohmann::json losses = Json()["files"][0]["losses"];
  ASSERT_EQ(losses.size(), 1U) << out_;
  EXPECT_EQ(losses[0].get<std::string>().rfind("bytes 2097152 to 4194304: ", 0), 0U) << out_;
}

TEST_F(Tool, AFailedSalvageListsWhatItCopied) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=4096 --seed=1"), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/b --size=4096 --seed=2"), 0) << err_;
  const std::string to = (folder_ / "saved").string();
  std::filesystem::create_directories(to);
  std::ofstream(to + "/b") << "other";
  EXPECT_EQ(Run("salvage", spec, "--format=json --to=" + to), 3) << err_;
  EXPECT_EQ(err_.rfind("zlfs: exists: ", 0), 0U) << err_;
  ASSERT_EQ(Json()["files"].size(), 1U) << out_;
  EXPECT_EQ(Json()["files"][0]["name"], "/a");
  EXPECT_EQ(Contents(to + "/b"), "other");

  EXPECT_EQ(Run("salvage", spec, "--to=/proc/none"), 4) << err_;
  EXPECT_EQ(err_.rfind("zlfs: destination: /proc/none: ", 0), 0U) << err_;
  EXPECT_EQ(err_.find("kernel"), std::string::npos) << err_;
}

TEST_F(Tool, NamesOfAnyBytesArePrinted) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  EXPECT_EQ(Run("import", spec, "--name=/\xff --size=4096 --seed=1"), 0) << err_;
  EXPECT_EQ(Run("dump", spec), 0) << err_;
  EXPECT_EQ(Run("list", spec, "--format=json"), 0) << err_;
  EXPECT_EQ(Json()["files"][0]["name"], "/\xef\xbf\xbd");
}

TEST_F(Tool, OutputThatCannotBeWrittenIsAnError) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  for (const char* const command : {"df", "list --format=json", "dump", "fsck"}) {
    EXPECT_EQ(Run(command, spec, ">/dev/full"), 4) << command;
    EXPECT_EQ(err_.rfind("zlfs: the output cannot be written", 0), 0U) << err_;
  }
}

TEST_F(Tool, RepairChangesNoVolumeThatCanBeMounted) {
  const std::string spec = Spec("d");
  ASSERT_EQ(Run("mkfs", spec), 0) << err_;
  ASSERT_EQ(Run("import", spec, "--name=/a --size=4096 --seed=1"), 0) << err_;
  const std::string before = Contents(folder_ / "d");
  EXPECT_EQ(Run("fsck", spec, "--repair"), 0) << err_;
  EXPECT_EQ(Contents(folder_ / "d"), before);
}

}  // namespace
}  // namespace zlfs
