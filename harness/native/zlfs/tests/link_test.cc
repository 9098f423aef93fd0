// A program that links zlfs opens zlfs:// through RocksDB's registry.

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/file_system.h>

#include <memory>
#include <string>

namespace {

rocksdb::Status Load(const std::string& uri) {
  rocksdb::ConfigOptions options;
  options.ignore_unsupported_options =
      false;  // otherwise an unknown scheme returns OK without a file system
  std::shared_ptr<rocksdb::FileSystem> fs;
  return rocksdb::FileSystem::CreateFromString(options, uri, &fs);
}

TEST(Link, TheSchemeIsRegistered) {
  const std::string message = Load("zlfs://dev:/nowhere").ToString();
  EXPECT_NE(message.find("/nowhere"), std::string::npos) << message;
}

TEST(Link, AnotherSchemeIsNot) { EXPECT_TRUE(Load("zzfs://dev:/nowhere").IsNotSupported()); }

}  // namespace
