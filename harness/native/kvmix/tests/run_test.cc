// Threads, pacing, time limits and reports, on targets without a database.

#include "kvmix/measure/run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "kvmix/measure/summary.h"
#include "kvmix/source/mix.h"

namespace kvmix {
namespace {

using std::chrono::milliseconds;

const std::atomic<bool> kNever{false};

// Stalls once, at operation `at`.
class StallingTarget : public NoTarget {
 public:
  StallingTarget(int at, milliseconds pause) : left_(at), pause_(pause) {}
  bool Apply(const Operation& operation, Outcome* outcome, std::string* problem) override {
    if (left_-- == 0) std::this_thread::sleep_for(pause_);
    return NoTarget::Apply(operation, outcome, problem);
  }

 private:
  int left_;
  milliseconds pause_;
};

class FailingTarget : public NoTarget {
 public:
  bool Apply(const Operation&, Outcome*, std::string* problem) override {
    *problem = "no room";
    return false;
  }
};

// Finds no key.
class ForgetfulTarget : public NoTarget {
 public:
  bool Apply(const Operation&, Outcome* outcome, std::string*) override {
    outcome->found = false;
    return true;
  }
};

std::vector<std::unique_ptr<MixSource>> Sources(std::uint64_t operations, unsigned threads) {
  MixOptions options;
  options.operations = operations;
  options.keys.existing = 1000;
  options.keys.key_space = 1'000'000;
  options.keys.slices = threads;
  options.weights = {1, 0, 0, 0, 1, 0, 0};
  std::vector<std::unique_ptr<MixSource>> sources;
  for (unsigned i = 0; i < threads; ++i) sources.push_back(std::make_unique<MixSource>(options, i));
  return sources;
}

template <typename T, typename... Given>
std::vector<Worker> Workers(const std::vector<std::unique_ptr<MixSource>>& sources,
                            Given... given) {
  std::vector<Worker> workers;
  for (const auto& source : sources)
    workers.push_back({source.get(), std::make_unique<T>(given...)});
  return workers;
}

TEST(Run, CountsEveryOperationOfEveryThread) {
  const auto sources = Sources(10'001, 3);
  const RunResult result = RunWorkload(Workers<NoTarget>(sources), {}, kNever);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.Operations(), 10'001U);
  const KindResult& inserts = result.kinds[Index(Kind::kInsert)];
  EXPECT_EQ(inserts.user_bytes, inserts.service.count() * 116);
  EXPECT_EQ(result.UserBytes(), inserts.user_bytes);
  EXPECT_EQ(inserts.intended.count(), 0U);  // empty in a closed loop
  EXPECT_EQ(result.checked, result.kinds[Index(Kind::kQuery)].service.count());
  EXPECT_EQ(result.wrong, 0U);
}

TEST(Run, AnOpenLoopKeepsItsRate) {
  const auto sources = Sources(500, 2);
  const RunResult result = RunWorkload(Workers<NoTarget>(sources), {.rate = 1000}, kNever);
  EXPECT_EQ(result.Operations(), 500U);
  EXPECT_GE(result.seconds, 0.498);
  EXPECT_LT(result.seconds, 2);
}

// A stall of the target delays all operations whose intended start lies in it. Service times do not
// show the delay. The times from the intended starts do: on average half of the stall.
TEST(Run, AnOpenLoopCountsWaitingTime) {
  const auto sources = Sources(1000, 1);
  const RunResult result =
      RunWorkload(Workers<StallingTarget>(sources, 100, milliseconds(400)), {.rate = 1000}, kNever);
  double service = 0;
  double intended = 0;
  for (const KindResult& kind : result.kinds) {
    service += static_cast<double>(kind.service.sum());
    intended += static_cast<double>(kind.intended.sum());
  }
  EXPECT_GE(service, 0.4e9);
  EXPECT_GE(intended, 0.4 * 400 / 2 * 1e9);  // 400 operations, 0.2 s each
  EXPECT_GT(intended, 20 * service);
}

TEST(Run, PoissonArrivalsKeepTheirRate) {
  const auto sources = Sources(2000, 1);
  const RunResult result =
      RunWorkload(Workers<NoTarget>(sources),
                  {.rate = 4000, .arrivals = Arrivals::kPoisson, .seed = 3}, kNever);
  EXPECT_NEAR(result.seconds, 0.5, 0.5 * 4 / std::sqrt(2000.0) + 0.2);
}

TEST(Run, EndsWhenItsTimeIsOver) {
  const auto sources = Sources(0, 2);
  const RunResult result =
      RunWorkload(Workers<NoTarget>(sources), {.rate = 2000, .duration = 0.3}, kNever);
  EXPECT_EQ(result.problem, "");
  EXPECT_NEAR(static_cast<double>(result.Operations()), 600, 2);
}

TEST(Run, TheFirstFailureEndsIt) {
  const auto sources = Sources(0, 2);
  const RunResult result = RunWorkload(Workers<FailingTarget>(sources), {}, kNever);
  EXPECT_NE(result.problem.find("no room"), std::string::npos);
  EXPECT_EQ(result.Operations(), 0U);
}

TEST(Run, AMissingKeyIsDetectedWithoutVerification) {
  const auto sources = Sources(100, 1);
  const RunResult result = RunWorkload(Workers<ForgetfulTarget>(sources), {}, kNever);
  EXPECT_EQ(result.wrong, result.kinds[Index(Kind::kQuery)].service.count());
  EXPECT_GT(result.wrong, 0U);
  EXPECT_NE(result.first_wrong.find("is missing"), std::string::npos);
}

TEST(Run, StopsOnRequest) {
  const auto sources = Sources(0, 1);
  std::atomic<bool> stop{false};
  std::jthread later([&stop] {
    std::this_thread::sleep_for(milliseconds(50));
    stop = true;
  });
  // One operation per thousand seconds: the stop must not wait for the next one.
  const RunResult result = RunWorkload(Workers<NoTarget>(sources), {.rate = 0.001}, stop);
  EXPECT_TRUE(result.interrupted);
  EXPECT_LT(result.seconds, 10);
}

TEST(Run, TheReportAddsUp) {
  const std::string path = testing::TempDir() + "kvmix-report-" + std::to_string(getpid());
  const auto sources = Sources(600, 1);
  const RunResult result = RunWorkload(
      Workers<NoTarget>(sources), {.rate = 2000, .interval = 0.1, .report_file = path}, kNever);
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line,
            "secs_elapsed,operations,insert,update,delete,range_delete,query,absent_query,scan");
  std::uint64_t total = 0;
  std::uint64_t of_kinds = 0;
  int lines = 0;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (int column = 0; std::getline(cells, cell, ','); ++column) {
      if (column == 1) total += std::stoull(cell);
      if (column > 1) of_kinds += std::stoull(cell);
    }
    ++lines;
  }
  std::filesystem::remove(path);
  EXPECT_GE(lines, 3);
  EXPECT_EQ(total, result.Operations());
  EXPECT_EQ(of_kinds, total);
}

TEST(Run, TheReportHasLatencies) {
  const std::string path = testing::TempDir() + "kvmix-latency-" + std::to_string(getpid());
  const auto sources = Sources(500, 1);
  std::vector<Worker> workers;
  // A stall of 0.2 s after 0.25 s delays the following operations by up to 0.2 s.
  workers.push_back({sources[0].get(), std::make_unique<StallingTarget>(250, milliseconds(200))});
  const RunResult result = RunWorkload(
      std::move(workers),
      {.rate = 1000, .interval = 0.1, .report_file = path, .report_latency = true}, kNever);
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_TRUE(line.ends_with(",scan,latency_mean_us,latency_max_us")) << line;
  double longest = 0;
  double spent = 0;
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::stringstream parts(line);
    for (std::string field; std::getline(parts, field, ',');) fields.push_back(field);
    if (fields.size() < 11) continue;  // no operation ended: the last fields are empty
    ASSERT_EQ(fields.size(), 11U) << line;
    EXPECT_LE(std::stod(fields[9]), std::stod(fields[10])) << line;
    spent += std::stod(fields[9]) * std::stod(fields[1]);
    longest = std::max(longest, std::stod(fields[10]));
  }
  EXPECT_GE(longest, 150'000);
  double total = 0;
  for (const KindResult& one : result.kinds) total += static_cast<double>(one.intended.sum());
  EXPECT_NEAR(spent, total / 1000, total / 1000 * 0.01);
  std::filesystem::remove(path);
}

TEST(Run, WaitsForItsStart) {
  const std::string path = testing::TempDir() + "kvmix-start-" + std::to_string(getpid());
  EXPECT_TRUE(WaitForStart({}, kNever));
  std::jthread starter([&path] {
    std::this_thread::sleep_for(milliseconds(50));
    std::ofstream(path).put('\n');
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(WaitForStart({.wait_for = path}, kNever));
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(50));
  const std::atomic<bool> stopped{true};
  EXPECT_FALSE(WaitForStart({.wait_for = path + "-never"}, stopped));
  starter.join();
  std::filesystem::remove(path);
}

TEST(Run, AReportThatCannotBeWrittenIsAProblem) {
  const auto sources = Sources(600, 1);
  const RunResult result =
      RunWorkload(Workers<NoTarget>(sources), {.report_file = "/no/such/folder/report"}, kNever);
  EXPECT_NE(result.problem.find("/no/such/folder"), std::string::npos);
}

TEST(Summary, HasOnlyTheKindsThatOccurred) {
  const auto sources = Sources(100, 1);
  const auto summary = Summary(RunWorkload(Workers<NoTarget>(sources), {.rate = 10'000}, kNever));
  EXPECT_EQ(summary["operations"], 100);
  EXPECT_EQ(summary["kinds"].size(), 2U);
  std::uint64_t samples = 0;
  for (const auto& kind : summary["kinds"]) {
    EXPECT_EQ(kind["service"]["count"], kind["operations"]);
    EXPECT_EQ(kind["intended"]["count"], kind["operations"]);
    for (const auto& bucket : kind["service"]["buckets"]) samples += bucket[2].get<std::uint64_t>();
  }
  EXPECT_EQ(samples, 100U);
  EXPECT_EQ(summary["verified"]["wrong"], 0);
}

}  // namespace
}  // namespace kvmix
