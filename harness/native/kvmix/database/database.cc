#include "kvmix/database/database.h"

#include <map>
#include <utility>

#include "rocksdb/convenience.h"
#include "rocksdb/statistics.h"
#include "rocksdb/version.h"
#include "rocksdb_api/open.h"

namespace kvmix {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

class RocksSession : public Target {
 public:
  RocksSession(rocksdb::DB* db, const rocksdb::WriteOptions& write) : db_(db), write_(write) {}

  bool Apply(const Operation& operation, Outcome* outcome, std::string* problem) override {
    const Status status = Do(operation, outcome);
    if (!status.ok()) *problem = status.ToString();
    return status.ok();
  }

 private:
  Status Do(const Operation& operation, Outcome* outcome) {
    switch (operation.kind) {
      case Kind::kInsert:
      case Kind::kUpdate:
        return db_->Put(write_, ToSlice(operation.key), ToSlice(operation.value));
      case Kind::kDelete:
        return db_->Delete(write_, ToSlice(operation.key));
      case Kind::kRangeDelete:
        return DeleteRange(operation);
      case Kind::kQuery:
      case Kind::kAbsentQuery:
        return Get(operation, outcome);
      case Kind::kScan:
        return Scan(operation, outcome);
    }
    return Status::NotSupported("an operation of no kind");
  }

  Status DeleteRange(const Operation& operation) {
    if (operation.last < operation.key) return Status::OK();
    // RocksDB's ranges exclude their end. The last key plus a zero byte is its direct successor.
    end_.assign(operation.last);
    end_.push_back('\0');
    return db_->DeleteRange(write_, db_->DefaultColumnFamily(), ToSlice(operation.key), end_);
  }

  Status Get(const Operation& operation, Outcome* outcome) {
    value_.Reset();
    const Status status =
        db_->Get(read_, db_->DefaultColumnFamily(), ToSlice(operation.key), &value_);
    outcome->found = status.ok();
    if (status.IsNotFound()) return Status::OK();
    if (!status.ok()) return status;
    outcome->bytes_read = operation.key.size() + value_.size();
    if (outcome->keep) outcome->value.assign(value_.data(), value_.size());
    return status;
  }

  Status Scan(const Operation& operation, Outcome* outcome) {
    outcome->scanned.clear();
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read_));
    for (iterator->Seek(ToSlice(operation.key)); iterator->Valid(); iterator->Next()) {
      if (iterator->key().compare(ToSlice(operation.last)) > 0) break;
      ++outcome->entries;
      outcome->bytes_read += iterator->key().size() + iterator->value().size();
      if (outcome->keep) {
        outcome->scanned.emplace_back(iterator->key().ToString(), iterator->value().ToString());
      }
    }
    return iterator->status();
  }

  rocksdb::DB* db_;
  rocksdb::WriteOptions write_;
  rocksdb::ReadOptions read_;
  rocksdb::PinnableSlice value_;
  std::string end_;
};

// Replaces two of RocksDB's messages: both errors come from a wrong --use_existing_db.
Status Explain(const Status& status, const DatabaseOptions& given) {
  const std::string text = status.ToString();
  if (!given.use_existing_db && text.find("exists (error_if_exists") != std::string::npos) {
    return Status::InvalidArgument(given.db + " already holds a database",
                                   "use it with --use_existing_db, or remove it yourself");
  }
  if (given.use_existing_db &&
      text.find("does not exist (create_if_missing") != std::string::npos) {
    return Status::InvalidArgument(given.db + " holds no database",
                                   "omit --use_existing_db to create it");
  }
  return status;
}

}  // namespace

Status Database::Open(const DatabaseOptions& options, std::unique_ptr<Database>* database) {
  std::unique_ptr<Database> result(new Database());
  if (Status status = ToRocks(options, &result->options_); !status.ok()) return status;
  if (!options.fs_uri.empty()) {
    rocksdb::Env* env = nullptr;
    rocksdb::ConfigOptions strict;
    strict.ignore_unsupported_options = false;  // else an unknown scheme is OK but sets no Env
    const Status status =
        rocksdb::Env::CreateFromUri(strict, "", options.fs_uri, &env, &result->guard_);
    if (!status.ok()) {
      return Status::InvalidArgument("--fs_uri=" + options.fs_uri, status.ToString());
    }
    result->options_.env = env;
  }
  result->write_.sync = options.sync;
  result->write_.disableWAL = options.disable_wal;
  const Status status = rocksdb_api::Open(&result->db_, result->options_, options.db);
  if (!status.ok()) return Explain(status, options);
  *database = std::move(result);
  return status;
}

Database::~Database() = default;

std::unique_ptr<Target> Database::Session() {
  return std::make_unique<RocksSession>(db_.get(), write_);
}

std::string Database::Sweep(const std::vector<Source*>& sources) {
  const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(rocksdb::ReadOptions()));
  iterator->SeekToFirst();
  std::string fault;
  // Sorts after every key, so each source clamps it to the end of its own slice.
  const std::string end(1024, '\xff');
  for (Source* const source : sources) {
    source->ExpectedRange("", end, [&](std::string_view key, std::string_view value) {
      if (!iterator->Valid() || iterator->key().compare(ToSlice(key)) > 0) {
        fault = "key " + std::string(key) + " is missing";
      } else if (iterator->key() != ToSlice(key)) {
        fault = "key " + iterator->key().ToString() + " exists but should not";
      } else if (iterator->value() != ToSlice(value)) {
        fault = "key " + std::string(key) + " has another value";
      } else {
        iterator->Next();
      }
      return fault.empty();
    });
    if (!fault.empty()) return fault;
  }
  if (iterator->Valid()) return "key " + iterator->key().ToString() + " exists but should not";
  return iterator->status().ok() ? "" : iterator->status().ToString();
}

nlohmann::ordered_json Database::Statistics() const {
  std::string stats;
  db_->GetProperty(rocksdb::DB::Properties::kStats, &stats);
  nlohmann::ordered_json json{{"version", rocksdb::GetRocksVersionAsString()},
                              {"stats", std::move(stats)}};
  if (options_.statistics == nullptr) return json;
  std::map<std::string, std::uint64_t> tickers;
  options_.statistics->getTickerMap(&tickers);
  json["tickers"] = tickers;
  auto histograms = nlohmann::ordered_json::object();
  for (const auto& [type, name] : rocksdb::HistogramsNameMap) {
    rocksdb::HistogramData data;
    options_.statistics->histogramData(type, &data);
    histograms[name] = {data.count, data.sum};
  }
  json["histograms"] = std::move(histograms);
  return json;
}

Status Database::Close() {
  const Status status = db_->Close();
  db_.reset();
  return status;
}

}  // namespace kvmix
