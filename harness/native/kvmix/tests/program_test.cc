// Tests of the kvmix program: exit statuses, stdout and stderr.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace {

using nlohmann::json;

struct Ended {
  int status;
  std::string out;
  std::string err;
};

class Program : public testing::Test {
 protected:
  Program() : folder_(testing::TempDir() + "kvmix-program-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~Program() override { std::filesystem::remove_all(folder_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] std::string Path(const std::string& name) const { return folder_ / name; }

  [[nodiscard]] std::string Read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Ended Call(const std::string& arguments) {
    const std::string command =
        std::string(KVMIX) + " " + arguments + " > " + Path("out") + " 2> " + Path("err");
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), Read("out"), Read("err")};
  }

 private:
  std::filesystem::path folder_;
};

// A RocksDB of the user can be built without Snappy, the default.
constexpr const char* kPlain = " --compression_type=none";
constexpr const char* kMix =
    " --insert=50 --update=25 --delete=10 --range_delete=0.1 --scan=2 --query=15 "
    "--absent_share=0.5";

TEST_F(Program, RunsInPhases) {
  const std::string common =
      " --db=" + Path("db") + " --key_space=20000 --value_size=30 --verify --statistics" + kPlain;
  Ended ended = Call("run --insert=1 --operations=5000" + common);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(json::parse(ended.out)["kinds"]["insert"]["operations"], 5000);
  ended = Call("run --use_existing_db=true --existing=5000 --operations=10000 --seed=3" +
               std::string(kMix) + common);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const json summary = json::parse(ended.out);
  EXPECT_EQ(summary["program"], "kvmix");
  EXPECT_EQ(summary["operations"], 10000);
  EXPECT_EQ(summary["verified"]["wrong"], 0);
  EXPECT_EQ(summary["verified"]["whole"], true);
  EXPECT_GT(summary["rocksdb"]["tickers"]["rocksdb.wal.bytes"], 0);
  // A different seed gives different keys, so the phase detects the wrong database.
  ended = Call("run --use_existing_db --existing=5000 --operations=100 --key_seed=1 --query=1" +
               common);
  EXPECT_EQ(ended.status, 4);
  EXPECT_NE(ended.err.find("is missing"), std::string::npos) << ended.err;
}

TEST_F(Program, GeneratesTheOperationsOfARunAndReplaysThem) {
  const std::string mix = std::string(kMix) + " --operations=4000 --seed=9 --threads=2";
  ASSERT_EQ(Call("generate --out=" + Path("trace") + mix).status, 0);
  const Ended again = Call("generate --out=-" + mix);
  EXPECT_EQ(again.out, Read("trace"));
  const Ended run = Call("run --db=" + Path("one") + mix + kPlain);
  const Ended replay =
      Call("replay --trace=" + Path("trace") + " --verify --db=" + Path("two") + kPlain);
  ASSERT_EQ(run.status, 0) << run.err;
  ASSERT_EQ(replay.status, 0) << replay.err;
  const json ran = json::parse(run.out);
  const json replayed = json::parse(replay.out);
  for (const auto& [kind, counts] : ran["kinds"].items()) {
    EXPECT_EQ(counts["operations"], replayed["kinds"][kind]["operations"]) << kind;
    EXPECT_EQ(counts["entries"], replayed["kinds"][kind]["entries"]) << kind;
    EXPECT_EQ(counts["user_bytes"], replayed["kinds"][kind]["user_bytes"]) << kind;
  }
}

TEST_F(Program, DryRunsNeedNoDatabase) {
  const Ended ended = Call("run --dry_run --operations=1000" + std::string(kMix));
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_FALSE(json::parse(ended.out).contains("rocksdb"));
}

TEST_F(Program, NamesTheWrongFlag) {
  const auto refused = [this](const std::string& arguments, const std::string& about) {
    const Ended ended = Call(arguments);
    EXPECT_EQ(ended.status, 2) << arguments;
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err.find(about), std::string::npos) << ended.err;
  };
  refused("", "subcommand");
  refused("run --no_such_flag=1", "no_such_flag");
  refused("run --insert=1", "--operations");
  refused("run --insert=1 --operations=-5 --dry_run", "operations");
  refused("run --insert=1 --duration=1 --dry_run", "--key_space");
  refused("run --operations=5 --dry_run", "weights");
  refused("run --insert=1 --operations=5", "--db");
  refused("run --query=1 --absent_share=2 --operations=5", "absent_share");
  refused("run --insert=1 --operations=5 --db=x --fs_uri=nowhere://x", "fs_uri");
  refused("run --insert=1 --operations=5 --db=" + Path("db") + " --write_buffer_size=big",
          "write_buffer_size");
  refused("replay --db=x --trace=/no/such/file", "/no/such/file");
}

TEST_F(Program, ADatabaseThatFailsIsAFailure) {
  const Ended ended =
      Call("run --insert=1 --operations=5 --db=/proc/no/such/folder" + std::string(kPlain));
  EXPECT_EQ(ended.status, 4);
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("kvmix: "), std::string::npos);
}

TEST_F(Program, AFullKeySpaceIsAFailure) {
  const Ended ended = Call("run --insert=1 --operations=1000 --key_space=1 --dry_run");
  EXPECT_EQ(ended.status, 4);
  EXPECT_NE(ended.err.find("key space"), std::string::npos);
}

TEST_F(Program, HelpHasExamples) {
  for (const char* command : {"run", "replay", "generate"}) {
    const Ended ended = Call(std::string(command) + " --help");
    EXPECT_EQ(ended.status, 0);
    EXPECT_NE(ended.out.find("kvmix " + std::string(command)), std::string::npos);
  }
}

TEST_F(Program, EndsWhenInterrupted) {
  const std::string report = Path("report");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string file = "--report_file=" + report;
    ::execl(KVMIX, "kvmix", "run", "--dry_run", "--insert=1", "--rate=100", "--duration=600",
            "--key_space=1000000", file.c_str(), "--report_interval_seconds=0.05", nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && Read("report").size() < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

}  // namespace
