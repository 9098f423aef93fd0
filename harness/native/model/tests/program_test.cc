// Tests of the program. It refuses bad input with one line, a hint and exit code 2.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "model/tests/small_drive.h"

namespace zonemodel {
namespace {

struct Done {
  int exit;
  std::string output;
};

// Returns stderr and, unless `stdout_to` leads it elsewhere, stdout.
Done Zonemodel(const std::string& arguments, const std::string& stdout_to = "") {
  const std::string command = std::string(ZONEMODEL) + " " + arguments + " 2>&1" + stdout_to;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> piece{};
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) output += piece.data();
  return {WEXITSTATUS(pclose(pipe)), output};
}

class ProgramTest : public testing::Test {
 protected:
  Done Check(const std::string& command = "check", const std::string& stdout_to = "") {
    const std::string folder = testing::TempDir() + std::to_string(getpid());
    std::ofstream(folder + "m.json") << model_;
    std::ofstream(folder + "j.json") << job_;
    return Zonemodel(command + " --model " + folder + "m.json --job " + folder + "j.json",
                     stdout_to);
  }
  void Refuses(const std::string& message) {
    const Done done = Check("run");
    EXPECT_EQ(done.exit, 2);
    EXPECT_NE(done.output.find(message), std::string::npos) << done.output;
    EXPECT_NE(done.output.find("\nhint: "), std::string::npos) << done.output;
  }

  Json model_ = SmallDrive();
  Json job_ = OneClient({{"mix", {{"write", 1}}}, {"zones", {0, 4}}, {"commands", 10}});
};

TEST_F(ProgramTest, PlaysAJob) {
  EXPECT_EQ(Check().exit, 0);
  const Done done = Check("run");
  EXPECT_EQ(done.exit, 0);
  EXPECT_EQ(Json::parse(done.output)["results"][0]["clients"][0]["commands"]["write"]["count"], 10);
  EXPECT_EQ(Zonemodel("--help").exit, 0);
}

TEST_F(ProgramTest, RefusesCommandsThatTakeNoTimeUntilATime) {
  model_["host"]["gap"] = "0us";
  model_["front"]["flush"] = "0us";
  job_ = OneClient({{"mix", {{"flush", 1}}}, {"zones", {0, 4}}, {"depth", 2}, {"duration", "1s"}});
  Refuses("job test, client 'a': duration never comes, because its commands, such as flush, take");
  Json limited = job_;
  limited["clients"][0]["commands"] = 2'000'000;
  std::swap(job_, limited);
  EXPECT_EQ(Check("run").exit, 0);
  std::swap(job_, limited);
  job_["clients"][0]["rate"] = "2000000/s";  // the clock follows the rate
  EXPECT_EQ(Check("run").exit, 0);
  job_["clients"][0].erase("rate");
  model_["host"]["gap"] = "1us";
  EXPECT_EQ(Check("run").exit, 0);
}

TEST_F(ProgramTest, MergedWritesEndWithTheirZone) {
  model_["host"]["stacks"]["merging"] = model_["host"]["stacks"]["passthrough"];
  model_["host"]["stacks"]["merging"]["merge"] = "64KiB";
  job_ = OneClient({{"mix", {{"write", 1}}},
                    {"zones", {0, 1}},
                    {"depth", 32},
                    {"size", "4KiB"},
                    {"stack", "merging"},
                    {"duration", "1s"}});
  Refuses("reach the end of zone 0");
}

TEST_F(ProgramTest, SetReplacesAValueWithOrWithoutOrigin) {
  model_["front"]["write"] = {{"value", "10us"}, {"origin", "measured"}, {"source", "here"}};
  const Done done = Check("run --set front.write=20us");
  EXPECT_EQ(Json::parse(done.output)["results"][0]["clients"][0]["commands"]["write"]["min_ns"],
            20'000);
  EXPECT_EQ(Check("run --set front.wrote=20us").exit, 2);
  EXPECT_EQ(Check("run --set 'front~write=20us'").exit, 2);
}

TEST_F(ProgramTest, RefusesModels) {
  const Json good = model_;
  const auto with = [&](const char* group, const char* field, const Json& value) {
    model_ = good;
    model_[group][field] = value;
  };
  with("flash", "programm", "1ms");
  Refuses("flash.programm is no field");
  with("flash", "program", 1);
  Refuses("flash.program has no unit");
  with("flash", "program", "-1ms");
  Refuses("flash.program: '-1ms' does not begin with a number");
  with("zones", "capacity", "1000KiB");
  Refuses("zones.capacity is no whole number of stripes");
  with("zones", "max_active", 17);
  Refuses("max_active or max_open is above count");
  with("zones", "channels", 3);
  Refuses("zones.channels");
  with("zones", "reset_spread_pct", 101);
  Refuses("zones.reset_spread_pct is not a share in range");
  with("zones", "reset", {{0, "1ms"}, {100, "20"}});
  Refuses("zones.reset: '20' has no unit");
  with("ftl", "over_provisioning_pct", 0.1);
  Refuses("ftl.over_provisioning_pct is below two superblocks");
  with("ftl", "block_units", 1 << 30);
  Refuses("ftl.over_provisioning_pct is below two superblocks");
  with("ftl", "reserve", 2);
  Refuses("ftl.reserve is not a count in range");
  with("ftl", "reserve", 1 << 30);
  Refuses("ftl.capacity makes too many physical pages");
  with("ftl", "capacity", "65537KiB");
  Refuses("ftl.capacity is no whole number of map units");
  with("buffer", "size", "64KiB");
  Refuses("buffer is too small");
  model_ = good;
  model_["front"].erase("write");
  Refuses("front.write is missing");
  model_ = good;
  model_["schema_version"] = 2;
  Refuses("newer than this program");
  model_["schema_version"] = 0;
  Refuses("model.schema_version is not a count in range");
}

TEST_F(ProgramTest, RefusesPagesAndUnitsThatDoNotFit) {
  const Json good = model_;
  const auto with = [&](const char* group, const char* field, const char* value) {
    model_ = good;
    model_[group][field] = value;
  };
  with("flash", "page", "4KiB");
  Refuses("flash.page is too small");
  with("flash", "page", "24KiB");
  Refuses("flash.program_unit is not a whole number of pages");
  with("flash", "program_unit", "4294967296GiB");  // four of them have 2^64 bytes
  Refuses("flash.program_unit is too large");
  for (const char* unit : {"64KiB", "6KiB", "256B", "0B"}) {
    with("ftl", "map_unit", unit);
    Refuses("ftl.map_unit is not a part of a flash page");
  }
  with("flash", "page", "5000B");
  model_["flash"]["program_unit"] = "10000B";
  model_["zones"]["capacity"] = "40000B";
  Refuses("zones.capacity is no whole number of logical blocks");
}

TEST_F(ProgramTest, OutputThatCannotBeWrittenIsAnError) {
  const Done done = Check("run", " >/dev/full");
  EXPECT_EQ(done.exit, 4);
  EXPECT_EQ(done.output.rfind("zonemodel: the output cannot be written\nhint: ", 0), 0U)
      << done.output;
}

TEST_F(ProgramTest, ChecksWhatARunChecks) {
  model_["ftl"]["over_provisioning_pct"] = 0.1;
  EXPECT_EQ(Check("run").exit, 2);
  EXPECT_EQ(Check("check").exit, 2);
}

TEST_F(ProgramTest, RefusesAddressesBeyondAConventionalDrive) {
  job_ = OneClient({{"namespace", "conventional"}, {"mix", {{"read", 1}}}, {"commands", 4}});
  Json& client = job_["clients"][0];
  client["range"] = {"0", "4MiB"};
  Refuses("client a.range: '0' has no unit");
  client["range"] = {"0B", "65MiB"};
  Refuses("client a.range is beyond the drive");
  client["range"] = {"6KiB", "4MiB"};
  Refuses("client a.range begins at no whole number of map units");
  client["range"] = {"8KiB", "4MiB"};
  EXPECT_EQ(Check().exit, 0);
  client.erase("range");
  client["size"] = "16MiB";
  model_["buffer"]["size"] = "32MiB";
  model_["ftl"]["capacity"] = "8MiB";
  Refuses("client a.size is above the capacity of the drive");
}

TEST_F(ProgramTest, RefusesJobs) {
  const Json good = job_;
  const auto with = [&](const char* field, const Json& value) {
    job_ = good;
    job_["clients"][0][field] = value;
  };
  with("zones", {0, 17});
  Refuses("zones is beyond the drive");
  with("size", "6KiB");
  Refuses("size is no size of commands");
  model_["buffer"]["size"] = "8MiB";
  with("size", "2MiB");
  Refuses("size is above the capacity of a zone");
  model_ = SmallDrive();
  with("depth", 5);
  Refuses("depth is above the zones that are written at a time");
  with("mix", {{"trim", 1}});
  Refuses("command of the other namespace");
  with("mix", {{"scan", 1}});
  Refuses("unknown command 'scan'");
  with("mix", {{"read", 0}, {"write", 0}});
  Refuses("mix has only weights of 0");
  with("rate", "10");
  Refuses("client a.rate: '10' has no unit");
  with("stack", "spdk");
  Refuses("stack is not in the model");
  with("sizes", "4KiB");
  Refuses("sizes is no field");
  job_ = good;
  job_["clients"][0].erase("commands");
  Refuses("duration or a limit is missing");
  job_["clients"][0]["mix"] = {{"read", 1}};
  job_["clients"][0]["at_full"] = "next";  // reads fill no zone
  Refuses("duration or a limit is missing");
  job_["clients"][0] = {{"name", "a"}, {"mix", {{"flush", 1}}}, {"zones", {0, 4}}};
  job_["clients"][0]["bytes"] = "1MiB";
  Refuses("duration or a limit is missing");
  job_ = good;
  job_["prepare"] = {{{"zones", {0, 5}}, {"fill_pct", 50}}};
  Refuses("prepare exceeds the limits of active or open zones");
  job_ = OneClient({{"mix", {{"reset", 1}}},
                    {"zones", {0, 4}},
                    {"refill", {{"fill_pct", 50}}},
                    {"commands", 8}});
  job_["prepare"] = {{{"zones", {8, 12}}, {"fill_pct", 50}}};
  Refuses("refill exceeds the limits of active or open zones");
}

}  // namespace
}  // namespace zonemodel
