// Shared by the tests of the device layer.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "zlfs/zoned/buffer.h"
#include "zlfs/zoned/device.h"
#include "zlfs/zoned/errors.h"

namespace zlfs {

inline testing::AssertionResult IsOk(const rocksdb::Status& status) {
  return status.ok() ? testing::AssertionSuccess()
                     : testing::AssertionFailure() << status.ToString();
}
#define ASSERT_OK(expression) ASSERT_TRUE(IsOk(expression))
#define EXPECT_OK(expression) EXPECT_TRUE(IsOk(expression))

// The first word of a status message: the error's name.
inline std::string ErrorOf(const IOStatus& status) {
  const std::string text = status.getState() == nullptr ? "" : status.getState();
  return text.substr(0, text.find(':'));
}

inline testing::AssertionResult FailsWith(const IOStatus& status, DeviceError::Name error) {
  if (!status.ok() && ErrorOf(status) == error) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.ToString() << ", not " << error;
}
#define EXPECT_ERROR(expression, error) EXPECT_TRUE(FailsWith(expression, error))

// Blocks whose bytes identify the block and its write.
class Blocks {
 public:
  Blocks(std::uint64_t count, std::uint32_t block_size, unsigned char salt)
      : size_(count * block_size), memory_(AllocateAligned(size_)) {
    for (std::size_t i = 0; i < size_; ++i) memory_[i] = Byte(i, block_size, salt);
  }

  static char Byte(std::size_t i, std::uint32_t block_size, unsigned char salt) {
    return static_cast<char>(i / block_size * 31 + i % 251 + salt * 7 + 1);
  }

  const Slice slice() const { return Slice(memory_.get(), size_); }
  std::string_view view() const { return {memory_.get(), size_}; }

 private:
  std::size_t size_;
  AlignedBuffer memory_;
};

inline ZoneInfo InfoOf(ZonedDevice& device, std::uint32_t zone) {
  std::vector<ZoneInfo> zones;
  const IOStatus status = device.Report(zone, 1, &zones);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return zones.empty() ? ZoneInfo{} : zones[0];
}

// Reads `size` bytes of a zone from `offset`. Returns an empty string after an error.
inline std::string ReadZone(ZonedDevice& device, std::uint32_t zone, std::uint64_t offset,
                            std::size_t size) {
  const AlignedBuffer buffer = AllocateAligned(size);
  const IOStatus status = device.Read(zone, offset, size, buffer.get());
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok() ? std::string(buffer.get(), size) : std::string();
}

// A folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "zlfs-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace zlfs
