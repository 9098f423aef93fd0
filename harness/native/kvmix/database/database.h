// A RocksDB database on any file system. Each thread opens its own session.

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
  // Returns InvalidArgument for a wrong option, any other error if the database does not open.
  static rocksdb::Status Open(const DatabaseOptions& options, std::unique_ptr<Database>* database);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The database must outlive its sessions.
  std::unique_ptr<Target> Session();

  // Compares all entries with the contents that the sources expect, slice by slice. Returns the
  // first difference, or an empty string.
  std::string Sweep(const std::vector<Source*>& sources);

  // Returns `version` and `stats` (the property rocksdb.stats). With statistics enabled, it adds
  // `tickers` and `histograms` ([count, sum] of the samples).
  nlohmann::ordered_json Statistics() const;

  rocksdb::Status Close();

 private:
  Database() = default;

  // Owns the Env. Declared before db_, which uses it until its destruction.
  std::shared_ptr<rocksdb::Env> guard_;
  rocksdb::Options options_;
  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace kvmix
