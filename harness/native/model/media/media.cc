#include "model/media/media.h"

#include <bit>
#include <cstring>
#include <fstream>

#include "kvmix/source/random.h"

namespace zonemodel {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr Bytes kSector = 512;
constexpr std::uint64_t kSeed = 1;
constexpr const char* kMagic = "zonelab-writes-1";
enum Kind : std::uint32_t { kWrite = 0, kDiscard = 1, kZeroes = 2, kMark = 3 };

BadInput Damaged(const std::string& name, const std::string& why) {
  return {name + " " + why, "name a complete file of recorded writes"};
}

const FtlParameters& Conventional(const Parameters& parameters) {
  if (!parameters.ftl) {
    throw BadInput("model " + parameters.name + " has no conventional namespace",
                   "name a model with ftl");
  }
  return *parameters.ftl;
}

std::vector<std::string> ReadMarks(std::istream* file, const std::string& name) {
  std::string line;
  if (!std::getline(*file, line) || line != kMagic) throw Damaged(name, "has another format");
  if (!std::getline(*file, line)) throw Damaged(name, "ends early");
  const Json header = Json::parse(line, nullptr, false);
  if (!header.is_object() || !header.contains("marks") || !header["marks"].is_array()) {
    throw Damaged(name, "has no marks");
  }
  std::vector<std::string> marks;
  for (const Json& mark : header["marks"]) {
    if (!mark.is_string()) throw Damaged(name, "has a mark without a name");
    marks.push_back(mark.get<std::string>());
  }
  return marks;
}

}  // namespace

MediaPlayer::MediaPlayer(const Parameters& parameters, bool ignore_discards, std::uint32_t rounds)
    : ignore_discards_(ignore_discards),
      capacity_(Conventional(parameters).capacity),
      ftl_(Conventional(parameters), parameters.flash) {
  kvmix::Random random(kSeed, 0);
  for (std::uint32_t page = 0; page < ftl_.pages(); ++page) ftl_.Write(page, &work_);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint32_t i = 0; i < ftl_.pages(); ++i) {
      ftl_.Write(static_cast<std::uint32_t>(random.Below(ftl_.pages())), &work_);
      work_ = {};
    }
  }
  work_ = {};
}

Json MediaPlayer::Play(std::istream* file, const std::string& name) {
  const std::vector<std::string> marks = ReadMarks(file, name);
  Json intervals = Json::array();
  now_ = {};
  Record record{};
  static_assert(sizeof(record) == 24);
  while (file->read(reinterpret_cast<char*>(&record), sizeof(record))) {
    if (record.kind != kMark) {
      Take(record, name);
      continue;
    }
    if (record.sector >= marks.size()) throw Damaged(name, "has an unknown mark");
    intervals.push_back(Report(marks[record.sector]));
    now_ = {};
  }
  if (file->gcount() != 0) throw Damaged(name, "ends within a record");
  intervals.push_back(Report(""));
  return intervals;
}

void MediaPlayer::Take(const Record& record, const std::string& name) {
  const Bytes bytes = record.sectors * kSector;
  // Compares sectors: in bytes, the number of a damaged record may exceed 64 bits.
  if (record.sector > capacity_ / kSector || bytes > capacity_ - record.sector * kSector) {
    throw Damaged(name, "has a command behind the end of the drive");
  }
  const Bytes begin = record.sector * kSector;
  switch (record.kind) {
    case kWrite:
      now_.written += bytes;
      return Write(begin, begin + bytes);
    case kDiscard:
      now_.discarded += bytes;
      if (!ignore_discards_) Trim(begin, begin + bytes);
      return;
    case kZeroes:  // drives unmap the blocks
      now_.zeroed += bytes;
      return Trim(begin, begin + bytes);
    default:
      throw Damaged(name, "has a command of an unknown kind");
  }
}

// A partly written page is programmed as a whole.
void MediaPlayer::Write(Bytes begin, Bytes end) {
  const Bytes page = ftl_.page_bytes();
  for (Bytes at = begin / page; at * page < end; ++at) {
    ftl_.Write(static_cast<std::uint32_t>(at), &work_);
    ++now_.pages;
  }
  now_.moved += work_.moved;
  now_.erased += work_.erased.size() * ftl_.dies();
  work_ = {};
}

// A partly trimmed page stays mapped.
void MediaPlayer::Trim(Bytes begin, Bytes end) {
  const Bytes page = ftl_.page_bytes();
  for (Bytes at = (begin + page - 1) / page; at < end / page; ++at) {
    ftl_.Trim(static_cast<std::uint32_t>(at));
  }
}

Json MediaPlayer::Report(const std::string& mark) const {
  const Bytes page = ftl_.page_bytes();
  return {{"mark", mark},
          {"written", now_.written},
          {"zeroed", now_.zeroed},
          {"discarded", now_.discarded},
          {"programmed", (now_.pages + now_.moved) * page},
          {"collected", now_.moved * page},
          {"erases", now_.erased}};
}

Json PlayMedia(const Json& model, const std::vector<std::string>& files, bool ignore_discards,
               std::uint32_t rounds) {
  const Parameters parameters = ReadParameters(model);
  MediaPlayer player(parameters, ignore_discards, rounds);
  Json report = {{"schema_version", 1}, {"model", parameters.name}, {"files", Json::array()}};
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    if (!file) throw BadInput("cannot read " + name, "check the name");
    report["files"].push_back(player.Play(&file, name));
  }
  return report;
}

}  // namespace zonemodel
