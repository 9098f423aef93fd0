// Writing and verifying a file of cold data.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace coldfill {

struct WriteOptions {
  std::string file;         // must not exist
  std::uint64_t bytes = 0;  // a multiple of 4 KiB
  std::uint64_t seed = 0;
  std::uint64_t block_size = 1 << 20;  // bytes per write call, a multiple of 4 KiB
  bool direct = false;                 // O_DIRECT where the file system takes it
};

struct WriteResult {
  std::uint64_t bytes = 0;  // stored, whole blocks
  double seconds = 0;
  bool direct = false;  // every byte was written with O_DIRECT
  int error = 0;        // errno, 0 when all was stored
  std::string step;     // the call that failed
};

struct VerifyOptions {
  std::string file;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> bytes;  // expected length; default: what the blocks say
};

struct VerifyResult {
  std::uint64_t blocks = 0;  // good ones before the first bad one
  double seconds = 0;
  std::optional<std::uint64_t> first_bad_block;
  std::string what;  // why that block is bad
  int error = 0;     // errno when the file could not be read
};

// Called about once a second with the bytes done and the seconds gone.
using Progress = std::function<void(std::uint64_t bytes, double seconds)>;

WriteResult Write(const WriteOptions& options, const Progress& progress);
VerifyResult Verify(const VerifyOptions& options, const Progress& progress);

}  // namespace coldfill
