// Opens a database with every supported release of RocksDB.

#pragma once

#include <memory>

#include "rocksdb/db.h"

namespace rocksdb_api {

// Passes `arguments` and the database to DB::Open. RocksDB 7.8 takes a raw pointer. RocksDB 11
// takes only a unique_ptr.
template <typename... Arguments>
rocksdb::Status Open(std::unique_ptr<rocksdb::DB>* database, const Arguments&... arguments) {
  if constexpr (requires { rocksdb::DB::Open(arguments..., database); }) {
    return rocksdb::DB::Open(arguments..., database);
  } else {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(arguments..., &opened);
    database->reset(opened);
    return status;
  }
}

}  // namespace rocksdb_api
