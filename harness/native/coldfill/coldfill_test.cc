#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "coldfill/block.h"
#include "coldfill/fill.h"

namespace coldfill {
namespace {

constexpr std::uint64_t kSeed = 0xdeadbeefcafe;
constexpr std::uint64_t kBytes = 3 * (1 << 20) + 5 * kBlockSize;

void Quiet(std::uint64_t /*bytes*/, double /*seconds*/) {}

class ColdFill : public testing::Test {
 protected:
  ColdFill() {
    std::string name = std::filesystem::temp_directory_path() / "coldfill-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~ColdFill() override { std::filesystem::remove_all(folder_); }
  ColdFill(const ColdFill&) = delete;
  ColdFill& operator=(const ColdFill&) = delete;

  [[nodiscard]] std::string Path() const { return folder_ / "cold"; }

  void Fill(std::uint64_t block_size = 1 << 20) const {
    const auto result = Write(
        {.file = Path(), .bytes = kBytes, .seed = kSeed, .block_size = block_size, .direct = true},
        Quiet);
    ASSERT_EQ(result.error, 0) << result.step;
    ASSERT_EQ(result.bytes, kBytes);
  }

  void FlipByte(std::uint64_t offset) const {
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }

  [[nodiscard]] VerifyResult Verified(std::uint64_t seed = kSeed) const {
    return Verify({.file = Path(), .seed = seed, .bytes = std::nullopt}, Quiet);
  }

 private:
  std::filesystem::path folder_;
};

TEST(Block, HeaderRoundTrip) {
  std::vector<std::uint64_t> words(4 * kBlockWords);
  Pattern pattern(kSeed, 100, words);
  pattern.Stamp(40);
  const auto header = Check(std::span(words).subspan(2 * kBlockWords).first<kBlockWords>());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->seed, kSeed);
  EXPECT_EQ(header->number, 42U);
  EXPECT_EQ(header->total, 100U);
}

TEST(Block, StartsWithItsMagic) {
  std::vector<std::uint64_t> words(kBlockWords);
  Pattern(1, 1, words).Stamp(0);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(words.data()), 8), "ZLCOLD01");
}

TEST(Block, EveryFlippedBitIsFound) {
  std::vector<std::uint64_t> words(kBlockWords);
  Pattern(kSeed, 1, words).Stamp(0);
  for (std::size_t word = 0; word < kBlockWords; ++word) {
    const std::uint64_t bit = 1ULL << (word % 64);
    words[word] ^= bit;
    EXPECT_FALSE(Check(std::span(words).first<kBlockWords>())) << "word " << word;
    words[word] ^= bit;
  }
  EXPECT_TRUE(Check(std::span(words).first<kBlockWords>()));
}

TEST_F(ColdFill, WhatIsWrittenVerifies) {
  Fill();
  const auto result = Verified();
  EXPECT_EQ(result.first_bad_block, std::nullopt) << result.what;
  EXPECT_EQ(result.blocks * kBlockSize, kBytes);
}

TEST_F(ColdFill, BlockSizeDoesNotMatterToVerify) {
  Fill(3 * kBlockSize);
  EXPECT_EQ(Verified().first_bad_block, std::nullopt);
}

TEST_F(ColdFill, FlippedByteIsNamed) {
  Fill();
  FlipByte(7 * kBlockSize + 1000);
  EXPECT_EQ(Verified().first_bad_block, 7U);
}

TEST_F(ColdFill, TruncatedFileIsFound) {
  Fill();
  std::filesystem::resize_file(Path(), 10 * kBlockSize);
  EXPECT_EQ(Verified().first_bad_block, 10U);
}

TEST_F(ColdFill, HalfABlockIsFound) {
  Fill();
  std::filesystem::resize_file(Path(), 10 * kBlockSize + 17);
  EXPECT_EQ(Verified().first_bad_block, 10U);
}

TEST_F(ColdFill, EmptyFileIsFound) {
  std::ofstream(Path()).close();
  EXPECT_EQ(Verified().first_bad_block, 0U);
}

TEST_F(ColdFill, WrongSeedIsFound) {
  Fill();
  const auto result = Verified(kSeed + 1);
  EXPECT_EQ(result.first_bad_block, 0U);
  EXPECT_EQ(result.what, "written with another seed");
}

TEST_F(ColdFill, ExpectedLengthIsHeld) {
  Fill();
  const auto result = Verify({.file = Path(), .seed = kSeed, .bytes = kBytes + kBlockSize}, Quiet);
  EXPECT_EQ(result.first_bad_block, kBytes / kBlockSize);
}

TEST_F(ColdFill, NeverOverwrites) {
  Fill();
  const auto again =
      Write({.file = Path(), .bytes = kBlockSize, .seed = 1, .direct = false}, Quiet);
  EXPECT_EQ(again.error, EEXIST);
  EXPECT_EQ(Verified().first_bad_block, std::nullopt);
}

TEST_F(ColdFill, MissingFileIsAnError) { EXPECT_EQ(Verified().error, ENOENT); }

}  // namespace
}  // namespace coldfill
