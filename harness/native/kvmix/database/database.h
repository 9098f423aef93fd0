// A RocksDB database on any file system, and one thread's sessions with it.

#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvmix/database/options.h"
#include "kvmix/measure/target.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"

namespace kvmix {

class Database {
 public:
  // InvalidArgument: what was asked for is wrong; anything else: it did not open.
  static rocksdb::Status Open(const DatabaseOptions& options, std::unique_ptr<Database>* database);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The database outlives its sessions.
  std::unique_ptr<Target> Session();

  // Compares all entries with what the sources must have left, slice by slice. Empty: they agree.
  std::string Sweep(const std::vector<Source*>& sources);

  // `version`, `stats` (the property rocksdb.stats), and with statistics `tickers` and `histograms`
  // ([number, sum] of samples).
  nlohmann::ordered_json Told() const;

  rocksdb::Status Close();

 private:
  Database() = default;

  // Outlives the database, which is on it.
  std::shared_ptr<rocksdb::Env> guard_;
  rocksdb::Options options_;
  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace kvmix
