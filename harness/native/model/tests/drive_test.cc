// Times and bytes of jobs on a small drive, calculated by hand.

#include <gtest/gtest.h>

#include "model/tests/small_drive.h"

namespace zonemodel {
namespace {

constexpr double kUs = 1000;
constexpr double kMs = 1'000'000;

Json Commands(const Json& mix, Json more) {
  Json client = {{"mix", mix}, {"zones", {0, 4}}};
  client.update(more);
  return client;
}

TEST(Drive, WriteTakesFixedTimesAndItsTransfer) {
  const Json model = SmallDrive();
  const auto mean = [&](const char* size, const char* kind) {
    return PlayOne(model, OneClient(Commands({{kind, 1}}, {{"size", size}, {"commands", 8}})), kind)
        .at("min_ns")
        .get<double>();
  };
  EXPECT_DOUBLE_EQ(mean("4KiB", "write"), 10 * kUs);
  EXPECT_DOUBLE_EQ(mean("4KiB", "append"), 13 * kUs);
  // 1 us for the list, and 24 KiB beyond the first 8 KiB at 1000 MiB/s.
  EXPECT_DOUBLE_EQ(mean("32KiB", "write"), 11 * kUs + 23'438);
}

TEST(Drive, FirstWriteOpensTheZone) {
  const Json commands =
      Play(SmallDrive(), OneClient({{"sequence", {"write", "write", "finish", "reset"}},
                                    {"zones", {0, 16}}}))["clients"][0]["commands"];
  EXPECT_EQ(commands["write"]["count"], 32);
  EXPECT_EQ(commands["write_first"]["count"], 16);
  EXPECT_EQ(commands["write_first"]["mean_ns"], 12 * kUs);
  EXPECT_EQ(commands["write"]["min_ns"], 10 * kUs);
}

TEST(Drive, SerialStageCapsCommandsASecond) {
  const Json reads =
      PlayOne(SmallDrive(),
              OneClient(Commands({{"read", 1}}, {{"depth", 32}, {"duration", "20ms"}})), "read");
  EXPECT_NEAR(reads["per_second"].get<double>(), 500'000, 2000);  // 2 us each
}

TEST(Drive, ProgramsLimitTheBandwidthOfWrites) {
  const Json written = PlayOne(SmallDrive(),
                               OneClient(Commands({{"write", 1}}, {{"size", "64KiB"}}),
                                         {{"duration", "2s"}, {"warmup", "1s"}}),
                               "write");
  // 4 dies, 64 KiB each in 1 ms and 62.5 us on the channel.
  EXPECT_NEAR(written["mib_per_second"].get<double>(), 250 / 1.0625, 2);
}

TEST(Drive, ReadTakesDieChannelAndLink) {
  const Json full = {{"prepare", {{{"zones", {0, 4}}, {"fill_pct", 100}}}}};
  const Json small =
      PlayOne(SmallDrive(), OneClient(Commands({{"read", 1}}, {{"commands", 50}}), full), "read");
  EXPECT_EQ(small["mean_ns"], 50 * kUs + 3906 + 5 * kUs + 977);
  const Json page = PlayOne(
      SmallDrive(), OneClient(Commands({{"read", 1}}, {{"commands", 50}, {"size", "16KiB"}}), full),
      "read");
  EXPECT_EQ(page["mean_ns"], 62 * kUs + 15'625 + 5 * kUs + 3906);
}

TEST(Drive, AReadOfUnwrittenDataNeedsNoDie) {
  const Json read =
      PlayOne(SmallDrive(), OneClient(Commands({{"read", 1}}, {{"commands", 10}})), "read");
  EXPECT_EQ(read["mean_ns"], 5 * kUs + 977);
}

// A unit is in the buffer until its program ends, in both namespaces.
TEST(Drive, AReadFromTheBufferNeedsNoDie) {
  for (const char* where : {"zoned", "conventional"}) {
    const auto reads = [&](const char* start) {
      Json writer = {{"name", "w"}, {"mix", {{"write", 1}}}, {"size", "64KiB"}, {"commands", 1}};
      Json reader = {{"name", "r"}, {"mix", {{"read", 1}}}, {"commands", 1}, {"start", start}};
      for (Json* client : {&writer, &reader}) (*client)["namespace"] = where;
      writer["pattern"] = reader["pattern"] = "sequential";
      if (where == std::string("zoned")) writer["zones"] = reader["zones"] = {0, 1};
      const Json job = {{"schema_version", 1}, {"name", "test"}, {"clients", {writer, reader}}};
      return Play(SmallDrive(), job)["clients"][1]["commands"]["read"]["mean_ns"].get<double>();
    };
    EXPECT_EQ(reads("0.5ms"), 5 * kUs + 977) << where;
    EXPECT_EQ(reads("3ms"), 50 * kUs + 3906 + 5 * kUs + 977) << where;
  }
}

TEST(Drive, ReadsPauseAProgramABoundedNumberOfTimes) {
  // There is only one die. It reads a full zone while it programs another zone.
  Json model = SmallDrive();
  model["flash"]["channels"] = model["flash"]["ways"] = 1;
  model["zones"]["channels"] = model["zones"]["ways"] = 1;
  const Json job = {
      {"schema_version", 1},
      {"name", "test"},
      {"duration", "100ms"},
      {"warmup", "20ms"},
      {"prepare", {{{"zones", {4, 8}}, {"fill_pct", 100}}}},
      {"clients",
       {{{"name", "reader"}, {"mix", {{"read", 1}}}, {"zones", {4, 8}}},
        {{"name", "writer"}, {"mix", {{"write", 1}}}, {"zones", {0, 2}}, {"size", "64KiB"}}}}};
  const auto slowest = [&](int pauses) {
    model["flash"]["max_suspends"] = pauses;
    return Play(model, job)["clients"][0]["commands"]["read"]["max_ns"].get<double>();
  };
  EXPECT_LT(slowest(1000), 0.2 * kMs);  // each read waits 20 us for the pause
  EXPECT_GT(slowest(0), 0.9 * kMs);     // a read waits for the whole program
  EXPECT_GT(slowest(2), 0.5 * kMs);
  EXPECT_LT(slowest(2), 1.1 * kMs);
}

TEST(Drive, FinishProgramsTheRest) {
  const Json result = Play(
      SmallDrive(), OneClient({{"sequence", {{{"command", "write"}, {"to_pct", 50}}, "finish"}},
                               {"zones", {0, 1}},
                               {"size", "64KiB"}}));
  // 8 units on 4 dies, after the programs of the data, and 0.5 ms.
  EXPECT_NEAR(result["clients"][0]["commands"]["finish"]["mean_ns"].get<double>(), 4.2 * kMs,
              0.7 * kMs);
  EXPECT_EQ(result["media"]["pad_bytes"], 1 << 19);
  EXPECT_EQ(result["media"]["programmed_bytes"], 1 << 20);
  EXPECT_EQ(result["media"]["write_amplification"], 2.0);
  EXPECT_EQ(result["zones"]["full"], 1);
}

TEST(Drive, FinishOfAnEmptyZoneProgramsNothing) {
  const Json result =
      Play(SmallDrive(), OneClient({{"sequence", {"finish", "reset"}}, {"zones", {0, 16}}}));
  const Json commands = result["clients"][0]["commands"];
  EXPECT_EQ(commands["finish"]["mean_ns"], 14 * kUs);
  EXPECT_EQ(commands["reset"]["mean_ns"], 2 * kMs);
  EXPECT_EQ(result["media"]["programmed_bytes"], 0);
}

TEST(Drive, ResetTimeDependsOnOccupancyAndFinish) {
  const auto reset = [](const Json& refill) {
    return PlayOne(SmallDrive(),
                   OneClient(Commands({{"reset", 1}}, {{"refill", refill}, {"commands", 4}})),
                   "reset")
        .at("mean_ns")
        .get<double>();
  };
  EXPECT_EQ(reset({{"fill_pct", 0}}), 1 * kMs);
  EXPECT_EQ(reset({{"fill_pct", 25}}), 3 * kMs);
  EXPECT_EQ(reset({{"fill_pct", 100}}), 7 * kMs);
  EXPECT_EQ(reset({{"fill_pct", 50}, {"state", "finished"}}), 3 * kMs);
}

TEST(Drive, AResetMayTakeManySeconds) {
  Json model = SmallDrive();
  model["zones"]["reset"] = {{0, "1ms"}, {100, "3600s"}};
  const Json resets = PlayOne(
      model,
      OneClient(Commands({{"reset", 1}}, {{"refill", {{"fill_pct", 100}}}, {"commands", 2}})),
      "reset");
  EXPECT_EQ(resets["mean_ns"], 3600e9);
}

// At time 0, a task may also end at time 0.
TEST(Drive, AnEraseMayTakeNoTime) {
  Json model = SmallDrive();
  model["zones"]["erase_at"] = "first-write";
  model["flash"]["erase"] = "0us";
  const auto played = [&](const char* start) {
    const auto writer = [&](const char* name, int zone) {
      return Json({{"name", name},
                   {"mix", {{"write", 1}}},
                   {"zones", {zone, zone + 1}},
                   {"size", "64KiB"},
                   {"commands", 4},
                   {"start", start}});
    };
    const Json job = {{"schema_version", 1},
                      {"name", "test"},
                      {"prepare", {{{"zones", {0, 8}}, {"fill_pct", 0}, {"used", true}}}},
                      {"clients", {writer("a", 0), writer("b", 4)}}};
    return Play(model, job)["events"].get<int>();
  };
  EXPECT_EQ(played("0s"), played("1us"));
}

TEST(Drive, ResetSharesItsCoreWithWritesOrBlocksThem) {
  Json model = SmallDrive();
  const Json job = {{"schema_version", 1},
                    {"name", "test"},
                    {"duration", "200ms"},
                    {"clients",
                     {{{"name", "writer"}, {"mix", {{"write", 1}}}, {"zones", {0, 3}}},
                      {{"name", "resetter"},
                       {"mix", {{"reset", 1}}},
                       {"zones", {8, 9}},
                       {"refill", {{"fill_pct", 100}}}}}}};
  const auto means = [&] {
    const Json clients = Play(model, job)["clients"];
    return std::pair(clients[1]["commands"]["reset"]["mean_ns"].get<double>(),
                     clients[0]["commands"]["write"]["max_ns"].get<double>());
  };
  const auto [shared, undisturbed] = means();
  EXPECT_GT(shared, 9 * kMs);  // 5 us of each 11 us go to writes
  EXPECT_LT(undisturbed, 2 * kMs);
  model["zones"]["reset_exclusive_pct"] = 100;
  const auto [alone, blocked] = means();
  EXPECT_EQ(alone, 7 * kMs);
  EXPECT_NEAR(blocked, 7 * kMs, 0.1 * kMs);
}

TEST(Drive, OnlyTheFirstWriteAfterAResetWaitsForTheErase) {
  Json model = SmallDrive();
  model["zones"]["erase_at"] = "first-write";
  const Json job = OneClient({{"sequence", {"write", "write", "reset"}},
                              {"zones", {0, 4}},
                              {"repeat", true},
                              {"commands", 24}});
  const Json result = Play(model, job);
  const Json commands = result["clients"][0]["commands"];
  EXPECT_EQ(commands["write_first"]["min_ns"], 12 * kUs);  // fresh zones
  EXPECT_EQ(commands["write_first"]["max_ns"], 3 * kMs);
  EXPECT_EQ(commands["write_first"]["count"], 8);
  EXPECT_EQ(result["media"]["erases"], 4 * 4);
  EXPECT_NEAR(commands["write"]["mean_ns"].get<double>(), (4 * 3000 + 4 * 12 + 8 * 10) * kUs / 16,
              kUs);
  model["zones"]["erase_at"] = "reset";
  const Json at_reset = Play(model, job)["clients"][0]["commands"];
  EXPECT_EQ(at_reset["write_first"]["max_ns"], 12 * kUs);
  EXPECT_GT(at_reset["reset"]["mean_ns"], 4 * kMs);
}

TEST(Drive, TheFirstWriteOfAnOpenZoneWaitsForTheErase) {
  Json model = SmallDrive();
  model["zones"]["erase_at"] = "first-write";
  const Json result = Play(model, OneClient({{"sequence", {"open", "write", "write", "reset"}},
                                             {"zones", {0, 1}},
                                             {"repeat", true},
                                             {"commands", 12}}));
  const Json writes = result["clients"][0]["commands"]["write"];
  EXPECT_EQ(result["media"]["erases"], 2 * 4);
  EXPECT_NEAR(writes["mean_ns"].get<double>(), (2 * 3000 + 4 * 10) * kUs / 6, kUs);
}

TEST(Drive, RefusedCommandsAreCountedByStatus) {
  const Json opens =
      PlayOne(SmallDrive(),
              OneClient(Commands({{"open", 1}}, {{"zones", {0, 8}}, {"commands", 8}})), "open");
  EXPECT_EQ(opens["count"], 3);
  EXPECT_EQ(opens["errors"], Json({{"0x01be", 5}}));
}

TEST(Drive, StackMergesWritesThatWait) {
  Json model = SmallDrive();
  model["flash"]["program"] = "0.1ms";
  const auto rate = [&](const char* stack, int depth) {
    return PlayOne(model,
                   OneClient(Commands({{"write", 1}},
                                      {{"stack", stack}, {"depth", depth}, {"duration", "3ms"}})),
                   "write")
        .at("per_second")
        .get<double>();
  };
  EXPECT_NEAR(rate("passthrough", 1), 1e6 / 11, 1000);
  EXPECT_NEAR(rate("merging", 1), 1e6 / 14, 1000);
  EXPECT_GT(rate("merging", 16), 2 * rate("merging", 1));
}

TEST(Drive, OpenLoopKeepsItsRateAndCountsFromTheIntendedTime) {
  const Json slow = PlayOne(
      SmallDrive(), OneClient(Commands({{"write", 1}}, {{"rate", "1000/s"}, {"duration", "1s"}})),
      "write");
  EXPECT_NEAR(slow["count"].get<double>(), 1000, 1);
  const Json late = PlayOne(
      SmallDrive(),
      OneClient(Commands({{"report", 1}}, {{"rate", "100000/s"}, {"duration", "1ms"}})), "report");
  EXPECT_GT(late["max_ns"], 400 * kUs);  // each takes 20 us, and one is due every 10 us
}

TEST(Drive, SameInputGivesTheSameBytes) {
  const Json job = OneClient(
      Commands({{"write", 3}, {"read", 5}, {"finish", 1}, {"reset", 1}}, {{"duration", "50ms"}}));
  const std::string once = RunJobs(SmallDrive(), {job, job, job}, 1).dump();
  EXPECT_EQ(RunJobs(SmallDrive(), {job, job, job}, 3).dump(), once);
  Json other = job;
  other["seed"] = 2;
  EXPECT_NE(RunJobs(SmallDrive(), {other, other, other}, 1).dump(), once);
}

TEST(Drive, ProgrammedBytesAreHostAndPadBytes) {
  const Json job =
      OneClient({{"sequence", {{{"command", "write"}, {"to_pct", 37.5}}, "finish", "reset"}},
                 {"zones", {0, 16}},
                 {"size", "32KiB"},
                 {"repeat", true},
                 {"commands", 357 * 14}});
  const Json media = Play(SmallDrive(), job)["media"];
  EXPECT_EQ(media["host_bytes"].get<Bytes>() + media["pad_bytes"].get<Bytes>(),
            media["programmed_bytes"]);
}

TEST(Drive, ALightLoadAfterAPreparationEnds) {
  Json model = SmallDrive();
  model.erase("zones");
  for (int seed = 1; seed <= 8; ++seed) {
    const Json result = PlayOne(
        model,
        OneClient({{"mix", {{"write", 1}}}, {"rate", "200/s"}, {"commands", 2000}},
                  {{"prepare",
                    {{{"conventional", "sequential"}}, {{"conventional", "random"}, {"times", 2}}}},
                   {"seed", seed}}),
        "write");
    EXPECT_EQ(result["count"], 2000) << seed;
  }
}

TEST(Drive, AStepThatIsRefusedIsNotRepeatedForEver) {
  // Four zones are active, so the fifth refuses the write.
  const Json result =
      Play(SmallDrive(), OneClient({{"sequence", {{{"command", "write"}, {"to_pct", 50}}}},
                                    {"zones", {0, 6}},
                                    {"size", "64KiB"}}));
  const Json commands = result["clients"][0]["commands"];
  EXPECT_EQ(commands["write"]["errors"], Json({{"0x01bd", 2}}));
  EXPECT_EQ(result["media"]["host_bytes"], 4 << 19);
}

TEST(Drive, AStepToNothingWritesNothing) {
  const Json job = OneClient(
      {{"sequence", {{{"command", "write"}, {"to_pct", 0}}, "finish"}}, {"zones", {0, 4}}});
  const Json result = Play(SmallDrive(), job);
  EXPECT_EQ(result["media"]["host_bytes"], 0);
  EXPECT_EQ(result["clients"][0]["commands"]["finish"]["count"], 4);
}

TEST(Drive, APassWithoutACommandEndsItsClient) {
  const Json job = OneClient({{"sequence", {{{"command", "write"}, {"to_pct", 50}}}},
                              {"zones", {0, 4}},
                              {"size", "64KiB"},
                              {"repeat", true}},
                             {{"duration", "1s"}});
  EXPECT_EQ(Play(SmallDrive(), job)["media"]["host_bytes"], 4 << 19);
}

// A refill lets a zone be finished again while its programs are under way.
TEST(Drive, EachFinishOfAZoneEnds) {
  const Json finishes = PlayOne(SmallDrive(),
                                OneClient({{"mix", {{"finish", 1}}},
                                           {"zones", {0, 2}},
                                           {"depth", 4},
                                           {"refill", {{"fill_pct", 50}}},
                                           {"commands", 40}}),
                                "finish");
  EXPECT_EQ(finishes["count"], 40);
}

}  // namespace
}  // namespace zonemodel
