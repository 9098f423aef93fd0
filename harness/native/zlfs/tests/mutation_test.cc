// Changes every field of every on-disk structure, with and without matching checksums. The check
// must report every change.
//
// The tables below name every byte of the fixed structures and every member of the records. A new
// member breaks the compilation; a new kind of record fails the test until the volume contains one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "zlfs/format/codec.h"
#include "zlfs/format/record.h"
#include "zlfs/format/sealed.h"
#include "zlfs/format/superblock.h"
#include "zlfs/meta/recover.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

using ZoneNumbers = std::vector<std::uint32_t>;
constexpr std::size_t kBlock = 512;
constexpr const char* kShape =
    "zones=24&zone_size=64K&zone_capacity=48K&max_active=8&block_size=512";

// A device with replaced content in some zones.
class PatchedDevice final : public ForwardingDevice {
 public:
  PatchedDevice(EmulatedDevice* inner, ZoneNumbers zones, const std::string* content)
      : ForwardingDevice(inner, Access::kReadOnly), zones_(std::move(zones)), content_(content) {}

 private:
  IOStatus DoReport(std::uint32_t first, std::uint32_t count,
                    std::vector<ZoneInfo>* zones) override {
    const IOStatus status = inner_->Report(first, count, zones);
    for (const std::uint32_t zone : zones_) {
      if (zone >= first && zone < first + count) {
        (*zones)[zone - first].write_pointer = content_->size();
      }
    }
    return status;
  }
  IOStatus DoRead(std::uint32_t zone, std::uint64_t offset, std::size_t size, char* to) override {
    if (std::ranges::find(zones_, zone) == zones_.end()) {
      return inner_->Read(zone, offset, size, to);
    }
    std::fill_n(to, size, '\0');
    if (offset < content_->size()) content_->copy(to, size, offset);
    return IOStatus::OK();
  }

  const ZoneNumbers zones_;
  const std::string* const content_;
};

struct Field {
  const char* name;
  std::size_t offset;
  std::size_t size;
};

constexpr Field kSuperblockFields[] = {{"magic", 0, 8},
                                       {"version", 8, 4},
                                       {"block_size", 12, 4},
                                       {"checksum", 16, 8},
                                       {"generation", 24, 8},
                                       {"volume", 32, 16},
                                       {"zone_size", 48, 8},
                                       {"zone_count", 56, 4},
                                       {"finish_remaining_pct", 60, 1},
                                       {"occupancy", 61, 1},
                                       {"gc_start_pct", 62, 1},
                                       {"on_active_limit", 63, 1},
                                       {"gc_victim", 64, 1},
                                       {"gc", 65, 1},
                                       {"lifetimes", 66, 1},
                                       {"max_active", 67, 1},
                                       {"identity size", 68, 2},
                                       {"identity", 70, 256},
                                       {"zero", 326, 2},
                                       {"label", 328, 32},
                                       {"zeros", 360, kBlock - 360}};
constexpr Field kSealedFields[] = {
    {"magic", 0, 4},       {"size", 4, 4},    {"subject", 8, 8},   {"position", 16, 8},
    {"generation", 24, 8}, {"number", 32, 8}, {"previous", 40, 8}, {"content checksum", 48, 8},
    {"checksum", 56, 8}};

constexpr bool Tiles(std::span<const Field> fields, std::size_t size) {
  std::size_t at = 0;
  for (const Field& field : fields) {
    if (field.offset != at) return false;
    at += field.size;
  }
  return at == size;
}
static_assert(Tiles(kSuperblockFields, kBlock));
static_assert(Tiles(kSealedFields, kHeaderSize));

// Changed values: incremented, lowest and highest bit flipped, all ones, zero.
std::vector<std::string> ChangedBytes(const std::string& bytes) {
  std::set<std::string> changed;
  std::string next = bytes;
  for (char& byte : next) {
    if (++byte != 0) break;
  }
  changed.insert(next);
  next = bytes;
  next.front() = static_cast<char>(next.front() ^ 1);
  changed.insert(next);
  next = bytes;
  next.back() = static_cast<char>(next.back() ^ 0x80);
  changed.insert(next);
  changed.insert(std::string(bytes.size(), '\xff'));
  changed.insert(std::string(bytes.size(), '\0'));
  changed.erase(bytes);
  return {changed.begin(), changed.end()};
}

template <typename Integer>
std::vector<Integer> Changed(Integer value) {
  constexpr auto kTop = std::uint64_t{1} << (8 * sizeof(Integer) - 1);
  const std::uint64_t wide = value;
  std::set<Integer> changed;
  for (const std::uint64_t other :
       {wide + 1, wide ^ 1, wide ^ kTop, ~std::uint64_t{0}, std::uint64_t{0}}) {
    changed.insert(static_cast<Integer>(other));
  }
  changed.erase(value);
  return {changed.begin(), changed.end()};
}

// Sets each changed value, calls `check(name)`, then restores the original.
struct Changer {
  const std::function<void(const std::string&)>& check;

  template <typename Value>
  void Try(const char* name, Value* value, const std::vector<Value>& others) const {
    const Value original = *value;
    for (const Value& other : others) {
      *value = other;
      check(name);
    }
    *value = original;
  }
  template <typename Integer>
  requires std::is_integral_v<Integer>
  void operator()(const char* name, Integer* value) const { Try(name, value, Changed(*value)); }
  void operator()(const char* name, FileKind* value) const {
    Try(name, value, {static_cast<FileKind>(1 - static_cast<int>(*value)), FileKind{2}});
  }
  void operator()(const char* name, std::string* value) const {
    std::vector<std::string> others = {"", *value + "x", *value + "/", value->substr(1)};
    Try(name, value, others);
  }
  void operator()(const char* name, std::vector<Extent>* value) const {
    std::vector<Extent> fewer(value->begin(), value->end() - 1);
    std::vector<Extent> more = *value;
    more.push_back(more.back());
    Try(name, value, {fewer, more, {}});
    for (Extent& extent : *value) {
      auto& [zone, offset, length] = extent;
      (*this)("extent zone", &zone);
      (*this)("extent offset", &offset);
      (*this)("extent length", &length);
    }
  }

  // The members of each kind. A structured binding does not compile if a member is missing.
  void operator()(StateRecord* r) const {
    auto& [next_file] = *r;
    (*this)("state next_file", &next_file);
  }
  void operator()(CreateRecord* r) const {
    auto& [file, kind, modified, name] = *r;
    (*this)("create file", &file);
    (*this)("create kind", &kind);
    (*this)("create modified", &modified);
    (*this)("create name", &name);
  }
  void operator()(ExtentsRecord* r) const {
    auto& [file, from, lifetime, extents] = *r;
    (*this)("extents file", &file);
    (*this)("extents from", &from);
    (*this)("extents lifetime", &lifetime);
    (*this)("extents", &extents);
  }
  void operator()(RenameRecord* r) const {
    auto& [file, name] = *r;
    (*this)("rename file", &file);
    (*this)("rename name", &name);
  }
  void operator()(DeleteRecord* r) const {
    auto& [file] = *r;
    (*this)("delete file", &file);
  }
  void operator()(RenameDirRecord* r) const {
    auto& [from, to] = *r;
    (*this)("rename-dir from", &from);
    (*this)("rename-dir to", &to);
  }
  void operator()(LogZoneRecord* r) const {
    auto& [zone, offset] = *r;
    (*this)("log-zone zone", &zone);
    (*this)("log-zone offset", &offset);
  }
  void operator()(LogZoneEndRecord* r) const {
    auto& [zone] = *r;
    (*this)("log-zone-end zone", &zone);
  }
  void operator()(LogFileRecord* r) const {
    auto& [file, zone] = *r;
    (*this)("log-file file", &file);
    (*this)("log-file zone", &zone);
  }
  void operator()(LinkRecord* r) const {
    auto& [file, name] = *r;
    (*this)("link file", &file);
    (*this)("link name", &name);
  }
  void operator()(UnlinkRecord* r) const {
    auto& [name] = *r;
    (*this)("unlink name", &name);
  }
  void operator()(TotalsRecord* r) const {
    auto& [collected_bytes, collected_zones, finishes, resets] = *r;
    (*this)("totals collected_bytes", &collected_bytes);
    (*this)("totals collected_zones", &collected_zones);
    (*this)("totals finishes", &finishes);
    (*this)("totals resets", &resets);
  }
};

// A volume with every kind of content, in the state that a killed program leaves.
class Mutation : public testing::Test {
 protected:
  void SetUp() override {
    device_ = MakeDevice(kShape);
    ASSERT_OK(Mkfs(device_.get(), {}, "", "label"));
    volume_ = MountOk(std::make_unique<HookedDevice>(device_, [] {}));
    Write("/d/1.sst", 9000, DataPlacement());
    Write("/d/1.log", 60000, LogPlacement());  // a full log zone
    Write("/d/2.sst", 5000, DataPlacement());
    Write("/d/2.log", 3000, LogPlacement());
    ASSERT_OK(volume_->files().Delete("/d/1.log"));
    // Ends and resets the zone of the deleted WAL.
    for (int i = 0; i < 3; ++i) ASSERT_OK(volume_->files().SyncNames());
    ASSERT_OK(volume_->files().Rename("/d/2.sst", "/d/3.sst"));
    volume_->files().RenameDirectory("/d", "/e");
    ASSERT_OK(volume_->files().Link("/e/3.sst", "/e/5.sst"));
    ASSERT_OK(volume_->files().Link("/e/3.sst", "/e/6.sst"));
    ASSERT_OK(volume_->files().Delete("/e/5.sst"));
    ASSERT_OK(volume_->files().SyncNames());
    Write("/e/4.sst", 7000, DataPlacement());
    Write("/e/last.log", 3000, LogPlacement());
    ASSERT_EQ(Violations(device_.get()), "");
    Recovered recovered;
    ASSERT_OK(Recover(device_.get(), &recovered));
    copies_ = recovered.metadata_zones;
    last_frame_ = recovered.last_frame;
    const std::uint32_t copy = copies_.front();
    content_ = ReadZone(*device_, copy, 0, InfoOf(*device_, copy).write_pointer);
    log_zones_ = recovered.space.log_zones;
    PatchedDevice same(device_.get(), copies_, &content_);
    ASSERT_EQ(Violations(&same), "");
    for (std::size_t at = kBlock; at < content_.size();) {
      SealedHeader header;
      ASSERT_TRUE(ReadHeader(std::string_view(content_).substr(at), kFrameMagic, &header));
      frames_.push_back({at, header});
      at += SealedSize(header.size, kBlock);
    }
    ASSERT_GT(frames_.size(), 5U);
  }

  void Write(const std::string& name, std::size_t size, const Placement& placement) {
    const FileKind kind = placement.cause == Cause::kWal ? FileKind::kLog : FileKind::kData;
    std::shared_ptr<File> file;
    ASSERT_OK(volume_->files().Create(name, kind, &file));
    volume_->writer().SetPlacement(file.get(), placement);
    for (std::size_t done = 0; done < size; done += size / 3) {
      ASSERT_OK(volume_->writer().Append(file.get(), Content(1, done, size / 3)));
      ASSERT_OK(volume_->writer().Sync(file.get()));
    }
    ASSERT_OK(volume_->writer().FinishWriting(file.get()));
  }

  void ExpectFound(const ZoneNumbers& zones, const std::string& content, const std::string& what) {
    PatchedDevice patched(device_.get(), zones, &content);
    ++mutations_;
    EXPECT_NE(Violations(&patched), "") << what;
  }

  // A mount takes the other copy, which has everything. It is refused only if the block looks
  // foreign.
  void ExpectHarmless(const std::string& content, const std::string& what) {
    const ZoneNumbers one = {copies_.back()};
    ExpectFound(one, content, what + " in one copy");
    PatchedDevice patched(device_.get(), one, &content);
    Recovered recovered;
    const IOStatus status = Recover(&patched, &recovered);
    if (status.ToString().find("wrong-magic") != std::string::npos) return;
    ASSERT_OK(status) << what;
    EXPECT_EQ(recovered.last_frame, last_frame_) << what;
    EXPECT_EQ(recovered.metadata_zones, ZoneNumbers{copies_.front()}) << what;
  }

  // Changes every field of the structure at `at` in `content`. `seal` updates its checksums.
  void ChangeFields(const ZoneNumbers& zones, const std::string& content, std::size_t at,
                    std::span<const Field> fields, const std::function<void(char*)>& seal) {
    for (const Field& field : fields) {
      for (const std::string& bytes : ChangedBytes(content.substr(at + field.offset, field.size))) {
        std::string changed = content;
        changed.replace(at + field.offset, field.size, bytes);
        const std::string what = std::string(field.name) + " at " + std::to_string(at);
        ExpectFound(zones, changed, what + ", wrong checksum");
        if (zones == copies_) ExpectHarmless(changed, what);
        seal(changed.data() + at);
        if (changed != content) ExpectFound(zones, changed, what + ", right checksum");
      }
    }
  }

  void TearDown() override { std::printf("%d mutations\n", mutations_); }

  std::shared_ptr<EmulatedDevice> device_;
  std::unique_ptr<Volume> volume_;
  ZoneNumbers copies_;   // metadata zones
  std::string content_;  // of each of them
  std::uint64_t last_frame_ = 0;
  std::vector<std::pair<std::size_t, SealedHeader>> frames_;
  std::map<std::uint32_t, std::uint64_t> log_zones_;
  int mutations_ = 0;
};

// Updates the header's checksum.
void SealHeader(char* blocks) {
  constexpr std::size_t kAt = offsetof(SealedHeader, checksum);
  const std::uint64_t checksum = Checksum({blocks, kAt});
  std::memcpy(blocks + kAt, &checksum, sizeof(checksum));
}

TEST_F(Mutation, Superblock) {
  ChangeFields(copies_, content_, 0, kSuperblockFields, [](char* block) {
    std::memset(block + kSuperblockChecksumOffset, 0, sizeof(std::uint64_t));
    const std::uint64_t checksum = Checksum({block, kBlock});
    std::memcpy(block + kSuperblockChecksumOffset, &checksum, sizeof(checksum));
  });
}

// Skips the last frame: no later frame confirms it. With a matching checksum, its changed version
// is a valid frame.
TEST_F(Mutation, FrameHeaders) {
  for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
    ChangeFields(copies_, content_, frames_[i].first, kSealedFields, SealHeader);
  }
}

// A mark ends its zone. It has no content and no position, and its number must only be higher.
TEST_F(Mutation, Mark) {
  const SealedHeader& last = frames_.back().second;
  std::string mark(kBlock, '\0');
  Seal({.magic = kFrameMagic,
        .subject = static_cast<std::uint64_t>(FrameKind::kSuperseded),
        .generation = last.generation,
        .number = last.number + 2,
        .previous = last.checksum},
       mark.data(), mark.size());
  const std::string marked = content_ + mark;
  const ZoneNumbers one = {copies_.back()};
  PatchedDevice both(device_.get(), copies_, &marked);
  EXPECT_EQ(Violations(&both).substr(0, 14), "9: corrupt-log");
  PatchedDevice single(device_.get(), one, &marked);
  EXPECT_EQ(Violations(&single), "") << "the other copy counts";
  const std::set<std::string> free = {"size", "position", "number"};
  for (const Field& field : kSealedFields) {
    const std::size_t at = content_.size() + field.offset;
    for (const std::string& bytes : ChangedBytes(marked.substr(at, field.size))) {
      std::string changed = marked;
      changed.replace(at, field.size, bytes);
      ExpectFound(one, changed, std::string(field.name) + ", wrong checksum");
      if (free.contains(field.name)) continue;
      SealHeader(changed.data() + content_.size());
      if (changed != marked) ExpectFound(one, changed, field.name);
    }
  }
  for (std::size_t byte = content_.size() + kHeaderSize; byte < marked.size(); byte += 7) {
    std::string changed = marked;
    changed[byte] = 4;
    ExpectFound(one, changed, "padding");
  }
}

// Of two copies, the longer one counts.
TEST_F(Mutation, AShorterCopy) {
  const std::string shorter = content_.substr(0, frames_.back().first);
  for (const std::uint32_t zone : copies_) {
    PatchedDevice patched(device_.get(), {zone}, &shorter);
    Recovered recovered;
    ASSERT_OK(Recover(&patched, &recovered));
    EXPECT_EQ(recovered.last_frame, last_frame_);
    EXPECT_NE(recovered.metadata_zones.front(), zone);
    EXPECT_EQ(recovered.metadata_zones.size(), 2U);
  }
}

// A copy is refused if a broken copy shows that it lacks flushed frames.
TEST_F(Mutation, ACopyWithoutFlushedFrames) {
  const std::string snapshot =
      content_.substr(0, frames_[0].first + SealedSize(frames_[0].second.size, kBlock));
  const AlignedBuffer buffer = AllocateAligned(snapshot.size());
  snapshot.copy(buffer.get(), snapshot.size());
  ASSERT_OK(device_->ResetZone(copies_.front()));
  ASSERT_OK(device_->Write(copies_.front(), 0, Slice(buffer.get(), snapshot.size())));
  std::string broken = content_;
  broken.back() = static_cast<char>(broken.back() ^ 1);
  PatchedDevice patched(device_.get(), {copies_.back()}, &broken);
  Recovered recovered;
  const IOStatus status = Recover(&patched, &recovered);
  EXPECT_NE(status.ToString().find("corrupt-frame"), std::string::npos) << status.ToString();
}

TEST_F(Mutation, RecordsOfEveryKind) {
  std::set<std::size_t> kinds;
  for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
    const auto& [at, header] = frames_[i];
    std::vector<Record> records;
    ASSERT_TRUE(DecodeRecords(content_.substr(at + kHeaderSize, header.size), &records));
    const std::function<void(const std::string&)> check = [&](const std::string& name) {
      std::string body;
      for (const Record& record : records) AppendRecord(record, &body);
      std::string frame(SealedSize(body.size(), kBlock), '\0');
      frame.replace(kHeaderSize, body.size(), body);
      SealedHeader changed = header;
      changed.size = static_cast<std::uint32_t>(body.size());
      Seal(changed, frame.data(), frame.size());
      const std::string rest = content_.substr(at + SealedSize(header.size, kBlock));
      ExpectFound(copies_, content_.substr(0, at) + frame + rest, name);
    };
    for (Record& record : records) {
      kinds.insert(record.index());
      std::visit([&](auto& kind) { Changer{check}(&kind); }, record);
    }
    // Changes body and padding without updating the checksum.
    for (std::size_t byte = kHeaderSize; byte < SealedSize(header.size, kBlock); byte += 7) {
      std::string changed = content_;
      changed[at + byte] = static_cast<char>(changed[at + byte] ^ 4);
      ExpectFound(copies_, changed, "body byte " + std::to_string(byte));
      ExpectHarmless(changed, "body byte " + std::to_string(byte));
    }
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Record>);
}

TEST_F(Mutation, Pieces) {
  ASSERT_EQ(log_zones_.size(), 1U);
  const auto [zone, start] = *log_zones_.begin();
  const std::string content = ReadZone(*device_, zone, 0, InfoOf(*device_, zone).write_pointer);
  int pieces = 0;
  SealedHeader header;
  for (std::size_t at = start, size; at < content.size(); at += size, ++pieces) {
    ASSERT_TRUE(ReadHeader(std::string_view(content).substr(at), kPieceMagic, &header));
    size = SealedSize(header.size, kBlock);
    if (at + size == content.size()) break;  // skipped like the last frame
    ChangeFields({zone}, content, at, kSealedFields, SealHeader);
    for (std::size_t byte = kHeaderSize; byte < size; byte += 31) {
      std::string changed = content;
      changed[at + byte] = static_cast<char>(changed[at + byte] ^ 4);
      ExpectFound({zone}, changed, "content, wrong checksum");
      Seal(header, changed.data() + at, size);
      if (changed != content) ExpectFound({zone}, changed, "content, right checksum");
    }
  }
  EXPECT_GT(pieces, 4);
}

}  // namespace
}  // namespace zlfs
