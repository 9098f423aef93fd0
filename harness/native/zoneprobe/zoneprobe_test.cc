// Tests of zoneprobe on emulated devices: plan, commands, final state, refusals and output.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "zlfs/tests/device_test_util.h"
#include "zlfs/zoned/open.h"
#include "zoneprobe/cycles.h"
#include "zoneprobe/label.h"
#include "zoneprobe/probe.h"

namespace zoneprobe {
namespace {

using zlfs::FailsWith;
using zlfs::IsOk;
using zlfs::ZoneCondition;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kCapacity = 96 << 10;
constexpr const char* kShape = "?zones=12&zone_size=128K&zone_capacity=96K&max_active=1";

std::vector<Occupancy> Parsed(const std::string& text) {
  const auto parsed = ParseOccupancies(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(std::vector<Occupancy>());
}

TEST(Occupancies, AreWholeBlocks) {
  const auto parsed = Parsed("0,block,6.25,50,all-but-block,100");
  const std::uint64_t wanted[] = {0, kBlock, kBlock, 48 << 10, kCapacity - kBlock, kCapacity};
  ASSERT_EQ(parsed.size(), std::size(wanted));
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    EXPECT_EQ(parsed[i].Bytes(kCapacity, kBlock), wanted[i]) << parsed[i].name;
  }
  EXPECT_TRUE(Parsed("").empty());
}

TEST(Occupancies, WrongOnesAreRefused) {
  for (const char* text : {"101", "-1", "nan", "half", "5,", ",5", "5,,6", "5,5", "5 "}) {
    EXPECT_FALSE(ParseOccupancies(text)) << text;
  }
}

std::vector<std::uint32_t> Zones(std::uint32_t count) {
  std::vector<std::uint32_t> zones(count);
  for (std::uint32_t i = 0; i < count; ++i) zones[i] = i + 1;
  return zones;
}

TEST(Cycles, TreatmentsAreEquallyFrequentAndFreshZonesServeOnce) {
  const auto treatments = Treatments(Parsed("0,50"), Parsed("50"));
  ASSERT_EQ(treatments.size(), 4U);
  const auto cycles = MakeCycles(treatments, 5, Zones(9), 7);
  ASSERT_EQ(cycles.size(), 20U);
  std::map<std::uint32_t, int> count;
  std::map<std::uint32_t, int> of_zone;
  for (const Cycle& cycle : cycles) {
    ++count[cycle.treatment];
    ++of_zone[cycle.zone];
  }
  for (const auto& [which, times] : count) EXPECT_EQ(times, 5) << treatments[which].name;
  EXPECT_EQ(of_zone.size(), 9U);
  for (const Cycle& cycle : cycles) {
    if (treatments[cycle.treatment].fresh) {
      EXPECT_EQ(of_zone[cycle.zone], 1);
    }
  }
}

TEST(Cycles, DependOnlyOnTheSeed) {
  const auto treatments = Treatments(Parsed("0,50"), Parsed("50"));
  const auto order = [&treatments](std::uint64_t seed) {
    std::string text;
    for (const Cycle& one : MakeCycles(treatments, 3, Zones(20), seed)) {
      text += std::to_string(one.zone) + ":" + std::to_string(one.treatment) + " ";
    }
    return text;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(Cycles, NeedOneZoneMoreThanRepeats) {
  const auto treatments = Treatments(Parsed("0"), {});
  EXPECT_TRUE(MakeCycles(treatments, 4, Zones(4), 1).empty());
  EXPECT_EQ(MakeCycles(treatments, 4, Zones(5), 1).size(), 8U);
}

class Program : public testing::Test {
 protected:
  int Run(const std::string& arguments) {
    const std::string line = std::string(ZONEPROBE) + " " + arguments + " >" +
                             (folder_ / "out").string() + " 2>" + (folder_ / "err").string();
    const int status = std::system(line.c_str());
    out_ = Contents("out");
    err_ = Contents("err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int Probe(const std::string& more = "--repeats=3 --first_writes=4 --seed=11") {
    return Run("run " + Device() + " --occupancies=0,block,50,100 --finish_occupancies=0,50 " +
               "--report_file=" + (folder_ / "csv").string() +
               " --ledger_file=" + (folder_ / "ledger").string() + " " + more);
  }
  int Label() { return Run("label " + Device() + " --label=zl-12345678"); }

  std::string Device() const { return "'--device=" + Spec() + "'"; }
  std::string Spec() const { return "file:" + (folder_ / "device").string() + kShape; }
  std::unique_ptr<zlfs::ZonedDevice> Open() const {
    std::unique_ptr<zlfs::ZonedDevice> device;
    EXPECT_OK(zlfs::OpenDevice(Spec(), zlfs::Access::kReadWrite, nullptr, &device));
    return device;
  }
  std::string Contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  zlfs::TemporaryFolder folder_;
  std::string out_;
  std::string err_;
};

TEST_F(Program, CountsMatchThePlanWithinOneActiveZone) {
  ASSERT_EQ(Label(), 0) << err_;
  ASSERT_EQ(Probe(), 0) << err_;
  const auto summary = nlohmann::json::parse(out_);
  const std::uint64_t fills = kBlock + kCapacity / 2 + kCapacity + kCapacity / 2;
  const std::uint64_t writes = 7 * 4 * kBlock;  // fresh, four resets, two finishes
  EXPECT_EQ(summary["bytes_written"], 3 * (fills + writes));
  EXPECT_EQ(summary["finishes"], 6);
  EXPECT_EQ(summary["pad_bytes"], 3 * (kCapacity + kCapacity / 2));
  EXPECT_EQ(summary["resets"], 3 * (6 + 7));
  EXPECT_EQ(summary["cycles"], 21);
  EXPECT_EQ(summary["zone_capacity"], kCapacity);
  ASSERT_EQ(summary["treatments"].size(), 7U);
  for (const auto& one : summary["treatments"]) {
    const bool fresh = one["name"] == "fresh";
    EXPECT_EQ(one["reset_ns"].size(), fresh ? 0U : 3U) << one["name"];
    EXPECT_EQ(one["finish_ns"].size(), one["finish"] ? 3U : 0U) << one["name"];
    ASSERT_EQ(one["write_ns"].size(), 3U);
    for (const auto& cycle : one["write_ns"]) EXPECT_EQ(cycle.size(), 4U);
  }
  const auto ledger = nlohmann::json::parse(Contents("ledger"));
  for (const char* name : {"bytes_written", "finishes", "pad_bytes", "resets"}) {
    EXPECT_EQ(ledger[name], summary[name]) << name;
  }
}

TEST_F(Program, ListsEveryCommandOnce) {
  ASSERT_EQ(Label(), 0) << err_;
  ASSERT_EQ(Probe(), 0) << err_;
  std::istringstream csv(Contents("csv"));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line, "seconds,cycle,zone,life,treatment,command,index,bytes,nanoseconds");
  std::map<std::string, int> commands;
  std::uint64_t bytes = 0;
  std::set<std::string> used_up;  // zones of earlier cycles
  double last = 0;
  while (std::getline(csv, line)) {
    std::vector<std::string> field;
    std::istringstream fields(line);
    for (std::string one; std::getline(fields, one, ',');) field.push_back(one);
    ASSERT_EQ(field.size(), 9U) << line;
    EXPECT_GE(std::stod(field[0]), last);
    last = std::stod(field[0]);
    EXPECT_NE(field[2], "0") << "the label's zone";
    if (field[4] == "fresh") {
      EXPECT_FALSE(used_up.contains(field[2])) << line;
      EXPECT_EQ(field[3], "0");
    }
    ++commands[field[5]];
    bytes += std::stoull(field[7]);
    if (field[5] == "cleanup") used_up.insert(field[2]);
  }
  const std::map<std::string, int> wanted = {
      {"fill", 12}, {"finish", 6}, {"reset", 18}, {"write", 84}, {"cleanup", 21}};
  EXPECT_EQ(commands, wanted);
  EXPECT_EQ(bytes, nlohmann::json::parse(out_)["bytes_written"]);
}

TEST_F(Program, LeavesEveryZoneEmptyExceptTheLabels) {
  ASSERT_EQ(Label(), 0) << err_;
  ASSERT_EQ(Probe(), 0) << err_;
  const auto device = Open();
  EXPECT_EQ(zlfs::InfoOf(*device, 0).condition, ZoneCondition::kFull);
  for (std::uint32_t zone = 1; zone < 12; ++zone) {
    EXPECT_EQ(zlfs::InfoOf(*device, zone).condition, ZoneCondition::kEmpty) << zone;
  }
  EXPECT_EQ(zlfs::ReadZone(*device, 0, 0, kBlock).substr(0, 20),
            std::string("ZLPROBE1zl-12345678\0", 20));
}

TEST_F(Program, RunsAgainAndTheLedgerGrows) {
  ASSERT_EQ(Label(), 0) << err_;
  ASSERT_EQ(Probe(), 0) << err_;
  ASSERT_EQ(Probe(), 0) << err_;
  const std::string ledger = Contents("ledger");
  EXPECT_EQ(std::count(ledger.begin(), ledger.end(), '\n'), 2);
}

TEST_F(Program, FailsWhenItsFilesCannotBeWritten) {
  ASSERT_EQ(Label(), 0) << err_;
  for (const char* file : {"report_file", "ledger_file"}) {
    EXPECT_EQ(
        Run("run " + Device() + " --repeats=1 --first_writes=1 --seed=1 --" + file + "=/dev/full"),
        4);
    EXPECT_EQ(err_.rfind("zoneprobe: not-recorded: /dev/full cannot be written", 0), 0U) << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(out_, "");
  }
}

TEST_F(Program, NamesAFileThatIsNoDevice) {
  std::ofstream(folder_ / "device") << "text";
  EXPECT_EQ(Probe(), 3);
  EXPECT_EQ(err_.rfind("zoneprobe: bad-image: ", 0), 0U) << err_;
  EXPECT_NE(err_.find("(the file is no emulated device"), std::string::npos) << err_;
}

TEST_F(Program, RefusesADeviceWithoutALabel) {
  Open();
  EXPECT_EQ(Probe(), 3);
  EXPECT_EQ(err_.rfind("zoneprobe: not-labelled: ", 0), 0U) << err_;
  EXPECT_EQ(out_, "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "csv"));
  std::ofstream(folder_ / "csv") << "earlier";
  EXPECT_EQ(Probe(), 3);
  EXPECT_EQ(Contents("csv"), "earlier");
}

TEST_F(Program, RefusesZonesWithData) {
  ASSERT_EQ(Label(), 0) << err_;
  {
    const auto device = Open();
    const zlfs::Blocks data(1, kBlock, 1);
    ASSERT_OK(device->Write(5, 0, data.slice()));
  }
  EXPECT_EQ(Probe(), 3);
  EXPECT_NE(err_.find("not-empty"), std::string::npos) << err_;
  EXPECT_NE(err_.find("zone 5"), std::string::npos) << err_;
  EXPECT_EQ(zlfs::InfoOf(*Open(), 5).write_pointer, kBlock);
  EXPECT_EQ(Label(), 3) << "a second label";
}

TEST_F(Program, RefusesImpossibleArguments) {
  ASSERT_EQ(Label(), 0) << err_;
  EXPECT_EQ(Probe("--repeats=11 --first_writes=4 --seed=1"), 3);
  EXPECT_NE(err_.find("too-few-zones"), std::string::npos) << err_;
  for (const char* wrong :
       {"--repeats=0 --first_writes=4 --seed=1", "--repeats=3 --first_writes=0 --seed=1",
        "--repeats=3 --first_writes=24 --seed=1", "--repeats=3 --first_writes=4",
        "--repeats=3 --first_writes=4 --seed=1 --write_size=1000",
        "--repeats=3 --first_writes=4 --seed=1 --fill_size=0",
        "--repeats=3 --first_writes=4 --seed=1 --occupancies=5,5"}) {
    EXPECT_EQ(Probe(wrong), 2) << wrong << ": " << err_;
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
  }
  EXPECT_EQ(Run("run --device=/dev/null --repeats=1 --first_writes=1 --seed=1"), 3) << err_;
}

TEST(Label, NeedsAnEmptyZoneAndAShortName) {
  std::unique_ptr<zlfs::ZonedDevice> device;
  ASSERT_OK(zlfs::OpenDevice("mem:zoneprobe-label" + std::string(kShape), zlfs::Access::kReadWrite,
                             nullptr, &device));
  EXPECT_FALSE(WriteLabel(device.get(), "").ok());
  EXPECT_FALSE(WriteLabel(device.get(), std::string(kLabelSize, 'x')).ok());
  EXPECT_FALSE(CheckLabel(device.get()).ok());
  ASSERT_OK(WriteLabel(device.get(), "zl-1"));
  EXPECT_OK(CheckLabel(device.get()));
  EXPECT_FALSE(WriteLabel(device.get(), "zl-2").ok());
}

}  // namespace
}  // namespace zoneprobe
