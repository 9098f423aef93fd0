// Writes and verifies a file of cold data.

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
  bool direct = false;                 // use O_DIRECT if the file system supports it
};

struct WriteResult {
  std::uint64_t bytes = 0;  // stored bytes, in whole blocks
  double seconds = 0;
  bool direct = false;  // every byte was written with O_DIRECT
  int error = 0;        // errno; 0: all bytes are stored
  std::string step;     // the failed call
};

struct VerifyOptions {
  std::string file;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> bytes;  // expected length; default: the total in the blocks' headers
};

struct VerifyResult {
  std::uint64_t blocks = 0;  // good blocks before the first bad one
  double seconds = 0;
  std::optional<std::uint64_t> first_bad_block;
  std::string what;  // the fault of that block
  int error = 0;     // errno if the file cannot be read
};

// Called about once per second with the bytes done and the elapsed seconds.
using Progress = std::function<void(std::uint64_t bytes, double seconds)>;

WriteResult Write(const WriteOptions& options, const Progress& progress);
VerifyResult Verify(const VerifyOptions& options, const Progress& progress);

}  // namespace coldfill
