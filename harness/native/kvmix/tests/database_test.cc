// Verified mixes on a real database, and the faults that verification detects.

#include "kvmix/database/database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kvmix/measure/run.h"
#include "kvmix/source/mix.h"
#include "rocksdb/table.h"

namespace kvmix {
namespace {

const std::atomic<bool> kNever{false};

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest() {
    path_ = testing::TempDir() + "kvmix-database-" + std::to_string(getpid());
    std::filesystem::remove_all(path_);
    options_.db = path_;
    options_.compression_type = "none";
    // Small enough to trigger flushes and compactions.
    options_.flags["write_buffer_size"] = "65536";
    options_.flags["target_file_size_base"] = "65536";
    options_.flags["max_bytes_for_level_base"] = "262144";
    mix_.keys.key_space = 40'000;
    mix_.keys.slices = 2;
    mix_.operations = 20'000;
    mix_.range_keys = 5;
    mix_.remember = true;
  }
  ~DatabaseTest() override { std::filesystem::remove_all(path_); }
  DatabaseTest(const DatabaseTest&) = delete;
  DatabaseTest& operator=(const DatabaseTest&) = delete;

  RunResult Mix() {
    sources_.clear();
    pointers_.clear();
    std::vector<Worker> workers;
    for (unsigned thread = 0; thread < mix_.keys.slices; ++thread) {
      sources_.push_back(std::make_unique<MixSource>(mix_, thread));
      pointers_.push_back(sources_.back().get());
      workers.push_back({pointers_.back(), database_->Session()});
    }
    return RunWorkload(std::move(workers), {.duration = duration_, .verify = true}, kNever);
  }

  void Open() {
    const rocksdb::Status status = Database::Open(options_, &database_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Close() {
    ASSERT_TRUE(database_->Close().ok());
    database_.reset();
  }

  std::string path_;
  DatabaseOptions options_;
  MixOptions mix_;
  double duration_ = 0;
  std::unique_ptr<Database> database_;
  std::vector<std::unique_ptr<MixSource>> sources_;
  std::vector<Source*> pointers_;
};

TEST_F(DatabaseTest, AllReadsReturnTheExpectedData) {
  Open();
  mix_.weights = {40, 20, 10, 0.5, 10, 10, 5};
  const RunResult result = Mix();
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.first_wrong, "");
  EXPECT_EQ(result.Operations(), 20'000U);
  EXPECT_GT(result.checked, 3000U);
  const KindResult& queries = result.kinds[Index(Kind::kQuery)];
  EXPECT_EQ(queries.found, queries.service.count());
  EXPECT_EQ(queries.bytes_read, queries.found * 116);
  EXPECT_EQ(result.kinds[Index(Kind::kAbsentQuery)].found, 0U);
  EXPECT_GT(result.kinds[Index(Kind::kScan)].entries, 3000U);
  EXPECT_EQ(database_->Sweep(pointers_), "");
  Close();
}

TEST_F(DatabaseTest, TheEndOfTheDurationSkipsNoOperation) {
  Open();
  // Every operation adds a key. So an operation that is drawn but not executed leaves a missing
  // key.
  mix_.keys.key_space = 10'000'000;
  mix_.operations = 0;
  mix_.weights = {1, 0, 0, 0, 0, 0, 0};
  duration_ = 0.2;
  const RunResult result = Mix();
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(result.Operations(), 0U);
  EXPECT_EQ(database_->Sweep(pointers_), "");
  Close();
}

TEST_F(DatabaseTest, ALaterPhaseContinuesWithTheKeys) {
  Open();
  mix_.weights = {1, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(Mix().first_wrong, "");
  Close();
  options_.use_existing_db = true;
  Open();
  mix_.keys.existing = 20'000;
  mix_.seed = 5;
  mix_.distribution = Distribution::kLatest;
  mix_.weights = {20, 20, 20, 0, 20, 10, 10};
  const RunResult result = Mix();
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.first_wrong, "");
  EXPECT_EQ(database_->Sweep(pointers_), "");
  Close();
}

TEST_F(DatabaseTest, ChangesByOthersAreDetected) {
  Open();
  mix_.weights = {1, 0, 0, 0, 0, 0, 0};
  Mix();
  const std::unique_ptr<Target> other = database_->Session();
  std::string key;
  std::string first;
  Outcome outcome;
  std::string problem;
  sources_[0]->keys().Write(sources_[0]->keys().Position(77), &key);
  ASSERT_TRUE(other->Apply({.kind = Kind::kUpdate, .key = key, .last = {}, .value = "changed"},
                           &outcome, &problem));
  EXPECT_EQ(database_->Sweep(pointers_), "key " + key + " has another value");
  ASSERT_TRUE(other->Apply({.kind = Kind::kDelete, .key = key, .last = {}, .value = {}}, &outcome,
                           &problem));
  EXPECT_EQ(database_->Sweep(pointers_), "key " + key + " is missing");
  const std::string more = "~more";
  ASSERT_TRUE(other->Apply({.kind = Kind::kInsert, .key = more, .last = {}, .value = "v"}, &outcome,
                           &problem));
  // The reads of a phase detect it too.
  mix_.keys.existing = 20'000;
  mix_.weights = {0, 0, 0, 0, 1, 0, 1};
  mix_.operations = 100'000;
  const RunResult result = Mix();
  EXPECT_GT(result.wrong, 0U);
  EXPECT_NE(result.first_wrong.find(key), std::string::npos);
  Close();
}

TEST_F(DatabaseTest, RangesAreClosed) {
  Open();
  const auto session = database_->Session();
  Outcome outcome;
  std::string problem;
  for (const char* key : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(session->Apply({.kind = Kind::kInsert, .key = key, .last = {}, .value = "v"},
                               &outcome, &problem));
  }
  const auto scan = [&] {
    outcome.entries = 0;
    EXPECT_TRUE(session->Apply({.kind = Kind::kScan, .key = "a", .last = "d", .value = {}},
                               &outcome, &problem));
    return outcome.entries;
  };
  EXPECT_EQ(scan(), 4U);
  ASSERT_TRUE(session->Apply({.kind = Kind::kRangeDelete, .key = "b", .last = "c", .value = {}},
                             &outcome, &problem));
  EXPECT_EQ(scan(), 2U);
  // A range whose end precedes its start is empty.
  ASSERT_TRUE(session->Apply({.kind = Kind::kRangeDelete, .key = "d", .last = "a", .value = {}},
                             &outcome, &problem));
  EXPECT_EQ(scan(), 2U);
  Close();
}

TEST_F(DatabaseTest, ReportsTheStatisticsOfRocksDb) {
  options_.statistics = true;
  Open();
  mix_.weights = {1, 0, 0, 0, 0, 0, 0};
  Mix();
  const auto statistics = database_->Statistics();
  EXPECT_GT(statistics["tickers"]["rocksdb.bytes.written"].get<std::uint64_t>(), 20'000U * 116);
  EXPECT_NE(statistics["stats"].get<std::string>().find("** Compaction Stats [default] **"),
            std::string::npos);
  EXPECT_TRUE(statistics["histograms"].contains("rocksdb.table.open.io.micros"));
  EXPECT_NE(statistics["version"], "");
  Close();
}

TEST_F(DatabaseTest, RefusesAMissingAndAnExistingDatabase) {
  options_.use_existing_db = true;
  rocksdb::Status status = Database::Open(options_, &database_);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  options_.use_existing_db = false;
  Open();
  Close();
  status = Database::Open(options_, &database_);
  EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_NE(status.ToString().find("already"), std::string::npos);
}

TEST_F(DatabaseTest, WrongOptionsAreNamed) {
  const auto fault = [this](auto change) {
    DatabaseOptions options = options_;
    change(&options);
    std::unique_ptr<Database> database;
    const rocksdb::Status status = Database::Open(options, &database);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    return status.ToString();
  };
  EXPECT_NE(fault([](auto* o) { o->flags["write_buffer_size"] = "big"; }).find("write_buffer_size"),
            std::string::npos);
  EXPECT_NE(fault([](auto* o) { o->compression_type = "best"; }).find("compression_type"),
            std::string::npos);
  EXPECT_NE(fault([](auto* o) { o->fs_uri = "nowhere://x"; }).find("fs_uri"), std::string::npos);
}

// This version of RocksDB must know every flag and accept its default.
TEST(RocksOptions, AllFlagsAreKnown) {
  rocksdb::Options options;
  const rocksdb::Status status = ToRocks({}, &options);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_FALSE(options.level_compaction_dynamic_level_bytes);
  EXPECT_EQ(options.max_open_files, -1);
  EXPECT_EQ(options.level0_stop_writes_trigger, 36);
  DatabaseOptions given;
  given.flags["open_files"] = "77";
  given.flags["level_compaction_dynamic_level_bytes"] = "true";
  ASSERT_TRUE(ToRocks(given, &options).ok());
  EXPECT_EQ(options.max_open_files, 77);
  EXPECT_TRUE(options.level_compaction_dynamic_level_bytes);
}

TEST(RocksOptions, ChecksumsOfBlocksAreTheDefaultUnlessGiven) {
  const auto checksum = [](const DatabaseOptions& given) {
    rocksdb::Options options;
    EXPECT_TRUE(ToRocks(given, &options).ok());
    return options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()->checksum;
  };
  DatabaseOptions given;
  EXPECT_EQ(checksum(given), rocksdb::BlockBasedTableOptions().checksum);
  given.checksum_type = 3;
  EXPECT_EQ(checksum(given), rocksdb::kxxHash64);
}

}  // namespace
}  // namespace kvmix
