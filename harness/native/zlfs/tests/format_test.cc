// On-disk structures: encoding and decoding round-trip, and a change of any byte is detected.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "zlfs/format/codec.h"
#include "zlfs/format/record.h"
#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"

namespace zlfs {
namespace {

Superblock Example() {
  Superblock superblock{.block_size = 512,
                        .generation = 42,
                        .zone_size = 1 << 20,
                        .zone_count = 100,
                        .policy = {.finish_remaining_pct = 20,
                                   .finish_occupancy_pct = 80,
                                   .gc_start_pct = 7,
                                   .on_active_limit = OnActiveLimit::kFinish,
                                   .gc_victim = Victim::kCostBenefit,
                                   .gc = true,
                                   .lifetimes = false,
                                   .max_active = 9}};
  superblock.SetNames("eui.0123456789abcdef", "bench");
  for (std::size_t i = 0; i < superblock.volume.size(); ++i) {
    superblock.volume[i] = static_cast<char>(i * 17);
  }
  return superblock;
}

TEST(Superblock, ComesBackAsItWas) {
  Superblock read;
  const auto status = DecodeSuperblock(EncodeSuperblock(Example()), &read);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(read, Example());
}

TEST(Superblock, EveryByteCounts) {
  const std::string block = EncodeSuperblock(Example());
  for (std::size_t i = 0; i < block.size(); ++i) {
    std::string changed = block;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    Superblock read;
    EXPECT_FALSE(DecodeSuperblock(changed, &read).ok()) << "byte " << i;
  }
}

TEST(Superblock, RefusesANewerVersionAndAWrongMagic) {
  std::string block = EncodeSuperblock(Example());
  Superblock read;
  constexpr std::uint32_t kNewer = kFormatVersion + 1;
  std::memcpy(block.data() + 8, &kNewer, sizeof(kNewer));
  auto status = DecodeSuperblock(block, &read);
  EXPECT_TRUE(status.IsNotSupported());
  EXPECT_NE(status.ToString().find("newer-version"), std::string::npos) << status.ToString();
  block[0] = 'X';
  status = DecodeSuperblock(block, &read);
  EXPECT_NE(status.ToString().find("wrong-magic"), std::string::npos) << status.ToString();
}

TEST(Sealed, EveryByteCounts) {
  for (const std::uint32_t magic : {kFrameMagic, kPieceMagic}) {
    ASSERT_EQ(SealedSize(700, 512), 1024U);
    std::string blocks(1024, 'x');
    const std::string content(700, 'c');
    blocks.replace(kHeaderSize, content.size(), content);
    const SealedHeader header{.magic = magic,
                              .size = 700,
                              .subject = 5,
                              .position = 77,
                              .generation = 2,
                              .number = 4,
                              .previous = 9};
    const std::uint64_t checksum = Seal(header, blocks.data(), blocks.size());
    SealedHeader read;
    ASSERT_TRUE(ReadHeader(blocks, magic, &read));
    EXPECT_FALSE(ReadHeader(blocks, magic + 1, &read));
    EXPECT_TRUE(ContentIsRight(blocks, read));
    EXPECT_EQ(read.size, 700U);
    EXPECT_EQ(read.subject, 5U);
    EXPECT_EQ(read.position, 77U);
    EXPECT_EQ(read.generation, 2U);
    EXPECT_EQ(read.number, 4U);
    EXPECT_EQ(read.previous, 9U);
    EXPECT_EQ(read.checksum, checksum);
    EXPECT_EQ(blocks.substr(kHeaderSize, read.size), content);
    EXPECT_EQ(blocks.find_first_not_of('\0', kHeaderSize + 700), std::string::npos);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::string changed = blocks;
      changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
      EXPECT_FALSE(ReadHeader(changed, magic, &read) && ContentIsRight(changed, read))
          << "byte " << i;
    }
  }
}

std::vector<Record> AllKinds() {
  return {StateRecord{.next_file = 300},
          CreateRecord{.file = 7, .kind = FileKind::kLog, .modified = 1700000000, .name = "/a/b"},
          ExtentsRecord{.file = 7,
                        .from = 1ULL << 40,
                        .lifetime = 4,
                        .extents = {{.zone = 3, .offset = 4096, .length = 100},
                                    {.zone = 9, .offset = 0, .length = 1ULL << 33}}},
          RenameRecord{.file = 7, .name = "/a/c"},
          DeleteRecord{.file = 7},
          RenameDirRecord{.from = "/a", .to = "/z"},
          LogZoneRecord{.zone = 11, .offset = 8192},
          LogZoneEndRecord{.zone = 11},
          LinkRecord{.file = 7, .name = "/z/d"},
          UnlinkRecord{.name = "/z/c"}};
}

std::string Encode(const std::vector<Record>& records) {
  std::string body;
  for (const Record& record : records) AppendRecord(record, &body);
  return body;
}

TEST(Record, AllKindsComeBackAsTheyWere) {
  const std::string body = Encode(AllKinds());
  std::vector<Record> read;
  ASSERT_TRUE(DecodeRecords(body, &read));
  ASSERT_EQ(read.size(), AllKinds().size());
  EXPECT_EQ(Encode(read), body);
  EXPECT_EQ(std::get<ExtentsRecord>(read[2]).extents[1].length, 1ULL << 33);
}

TEST(Record, CutOffAnywhereIsMalformedOrShorter) {
  const std::string body = Encode(AllKinds());
  for (std::size_t size = 0; size < body.size(); ++size) {
    std::vector<Record> read;
    if (DecodeRecords(std::string_view(body).substr(0, size), &read)) {
      EXPECT_EQ(Encode(read).size(), size);  // the cut is between two records
    }
  }
}

TEST(Record, UnknownTypesAndLeftoversAreMalformed) {
  std::vector<Record> read;
  EXPECT_FALSE(DecodeRecords(std::string("\x63\x00", 2), &read));
  EXPECT_FALSE(DecodeRecords(std::string("\x05\x02\x07\x07", 4), &read));  // delete with two ids
  EXPECT_FALSE(DecodeRecords(std::string(1, '\x05'), &read));
}

TEST(Decoder, RefusesTooLargeValues) {
  EXPECT_EQ(Decoder("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").Varint(), ~0ULL);
  Decoder wide("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  wide.Varint();
  EXPECT_FALSE(wide.ok());
  Decoder limited("\x06");
  limited.Varint(5);
  EXPECT_FALSE(limited.ok());
}

}  // namespace
}  // namespace zlfs
