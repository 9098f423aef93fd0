// Tests of recorded commands on the translation layer: counts, collection and damaged files.

#include "model/media/media.h"

#include <gtest/gtest.h>

#include <sstream>

#include "kvmix/source/random.h"

namespace zonemodel {
namespace {

constexpr std::uint64_t kPages = 64 * 256;  // of 4 KiB
constexpr std::uint32_t kPerPage = 8;       // sectors

Parameters Small() {
  Parameters parameters{};
  parameters.name = "small";
  parameters.flash.channels = parameters.flash.ways = 1;
  parameters.flash.program_unit = parameters.flash.page = 16 << 10;
  parameters.ftl = FtlParameters{.capacity = kPages * 4096,
                                 .map_unit = 4096,
                                 .over_provisioning = 70'000'000,
                                 .block_units = 16,
                                 .dies = 1,
                                 .reserve = 3,
                                 .collection = Collection::kGreedy,
                                 .hot_cold_separation = true};
  return parameters;
}

class File {
 public:
  explicit File(const std::string& marks = R"("up","fill")") {
    text_ = "zonelab-writes-1\n{\"marks\":[" + marks + "]}\n";
  }
  File& Add(std::uint32_t kind, std::uint64_t sector, std::uint32_t sectors) {
    const std::uint64_t time = 0;
    text_.append(reinterpret_cast<const char*>(&time), 8);
    text_.append(reinterpret_cast<const char*>(&sector), 8);
    text_.append(reinterpret_cast<const char*>(&sectors), 4);
    text_.append(reinterpret_cast<const char*>(&kind), 4);
    return *this;
  }
  File& Text(const std::string& text) {
    text_ = text;
    return *this;
  }
  File& Cut(std::size_t bytes) {
    text_.resize(text_.size() - bytes);
    return *this;
  }
  Json Play(MediaPlayer* player) const {
    std::istringstream stream(text_);
    return player->Play(&stream, "file");
  }

 private:
  std::string text_;
};

TEST(Media, CountsEachKindUpToItsMark) {
  MediaPlayer player(Small(), false, 0);
  const Json report =
      File().Add(0, 0, 16).Add(1, 16, 8).Add(3, 0, 0).Add(0, 1, 2).Add(2, 80, 8).Add(3, 1, 0).Play(
          &player);
  ASSERT_EQ(report.size(), 3U);
  EXPECT_EQ(report[0]["mark"], "up");
  EXPECT_EQ(report[0]["written"], 8192);
  EXPECT_EQ(report[0]["discarded"], 4096);
  EXPECT_EQ(report[0]["zeroed"], 0);
  EXPECT_EQ(report[0]["programmed"], 8192);
  EXPECT_EQ(report[1]["mark"], "fill");
  EXPECT_EQ(report[1]["written"], 1024);
  EXPECT_EQ(report[1]["zeroed"], 4096);
  EXPECT_EQ(report[1]["programmed"].get<Bytes>() - report[1]["collected"].get<Bytes>(), 4096U)
      << "a page that is written in part is programmed whole";
  EXPECT_EQ(report[2]["mark"], "");
  EXPECT_EQ(report[2]["written"], 0);
}

Bytes Collected(bool discard, bool ignore) {
  MediaPlayer player(Small(), ignore, 2);
  File file;
  if (discard) file.Add(1, 0, kPages * kPerPage / 2);
  kvmix::Random random(3, 3);
  for (std::uint64_t i = 0; i < kPages; ++i) {
    file.Add(0, (kPages / 2 + random.Below(kPages / 2)) * kPerPage, kPerPage);
  }
  return file.Play(&player)[0]["collected"].get<Bytes>();
}

TEST(Media, DiscardsSaveCollectionUnlessTheDriveIgnoresThem) {
  EXPECT_GT(Collected(false, false), kPages * 4096);
  EXPECT_LT(Collected(true, false), Collected(false, false) / 4);
  EXPECT_EQ(Collected(true, true), Collected(false, true));
}

TEST(Media, StateGoesOnFromFileToFile) {
  MediaPlayer together(Small(), false, 0);
  File first;
  File second;
  File whole;
  kvmix::Random random(4, 4);
  for (std::uint64_t i = 0; i < 2 * kPages; ++i) {
    const std::uint64_t sector = random.Below(kPages) * kPerPage;
    (i < kPages ? first : second).Add(0, sector, kPerPage);
    whole.Add(0, sector, kPerPage);
  }
  MediaPlayer apart(Small(), false, 0);
  const Bytes all = whole.Play(&together)[0]["collected"].get<Bytes>();
  const Bytes before = first.Play(&apart)[0]["collected"].get<Bytes>();
  const Bytes after = second.Play(&apart)[0]["collected"].get<Bytes>();
  EXPECT_EQ(before + after, all);
  EXPECT_GT(after, before);
}

TEST(Media, ADamagedFileIsRefused) {
  MediaPlayer player(Small(), false, 0);
  const std::vector<File> files = {
      File().Text(""),
      File().Text("zonelab-writes-2\n{\"marks\":[]}\n"),
      File().Text("zonelab-writes-1\nmarks\n"),
      File("1"),
      File().Add(0, std::uint64_t{1} << 55, 8),  // 2^64 bytes
      File().Add(0, 0, 8).Cut(1),
      File().Add(3, 2, 0),
      File().Add(4, 0, 8),
      File().Add(0, kPages * kPerPage, 1),
      File().Add(0, ~std::uint64_t{0} / 512, 8),
  };
  for (const File& file : files) EXPECT_THROW(file.Play(&player), BadInput);
  Parameters zoned = Small();
  zoned.ftl.reset();
  EXPECT_THROW(MediaPlayer(zoned, false, 0), BadInput);
}

}  // namespace
}  // namespace zonemodel
