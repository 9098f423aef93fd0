#include "zlfs/crash/schedule.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <ranges>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "zlfs/crash/policies.h"
#include "zlfs/fs/check.h"
#include "zlfs/fs/volume.h"
#include "zlfs/meta/recover.h"
#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/faulty_device.h"
#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/image.h"
#include "zlfs/zoned/open.h"

namespace zlfs::crash {
namespace {

constexpr const char* kShapes[] = {
    "zones=32&zone_size=64K&zone_capacity=48K&max_active=6",
    "zones=40&zone_size=64K&max_active=14",
    "zones=28&zone_size=64K&zone_capacity=50K&block_size=512&max_active=8",
};
constexpr std::size_t kMostBrokenZones = 3;
constexpr std::size_t kMostOpen = 4;

struct Entry {
  FileKind kind = FileKind::kData;
  std::string content;  // everything that was appended
  std::uint64_t synced = 0;
  std::uint64_t handed = 0;              // bytes that survive the end of the process
  bool must_exist = false;               // durably created
  bool deleted = false;                  // perhaps not durably
  bool gone = false;                     // durably deleted, or a mount did not find it
  bool linked = false;                   // a second name of another entry's file
  bool failed = false;                   // an operation failed: its effect is unknown
  std::shared_ptr<File> file = nullptr;  // open for writing

  // Bytes that the next mount must find.
  std::uint64_t kept() const { return std::max(synced, handed); }
};

std::string TailsFolder(const std::string& name) {
  return std::filesystem::temp_directory_path() / (name + "-" + std::to_string(getpid()));
}

class Schedule {
 public:
  Schedule(std::uint64_t seed, ScheduleCounts* counts)
      : random_(seed),
        name_("schedule-" + std::to_string(seed)),
        counts_(counts),
        tails_(seed % 2 == 0 ? TailsFolder(name_) : ""),
        readers_(seed % 4 == 0),
        links_(seed % 4 == 1) {}
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  ~Schedule() {
    StopReader();
    CloseFiles();
    volume_.reset();
    device_.reset();
    Image::ForgetMemory(name_);
    LoseTails();
  }

  std::string Run() {
    ++counts_->schedules;
    Format();
    const std::uint64_t lives = 2 + Below(4);
    for (std::uint64_t life = 0; life < lives && problem_.empty(); ++life) {
      Mount(Below(4) == 0);
      if (volume_ == nullptr) return problem_;
      if (readers_) StartReader();
      const std::uint64_t steps = volume_->read_only() ? 0 : 10 + Below(70);
      if (steps > 0 && Below(2) == 0) faulty_->DieAfter(Below(3 * steps));
      for (std::uint64_t i = 0; i < steps && problem_.empty() && !hopeless_; ++i) Step();
      StopReader();
      End();
    }
    if (problem_.empty()) Mount(false);
    return problem_;
  }

 private:
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }

  void Fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  void Format() {
    const std::string spec = "mem:" + name_ + "?cache=volatile&" + kShapes[Below(3)];
    std::unique_ptr<ZonedDevice> device;
    IOStatus status = OpenDevice(spec, Access::kReadWrite, nullptr, &device);
    if (!status.ok()) return Fail("device: " + status.ToString());
    device_.reset(dynamic_cast<EmulatedDevice*>(device.release()));
    Policy policy = RandomPolicy([this](std::uint64_t n) { return Below(n); });
    policy.gc = Below(4) != 0;
    status = Mkfs(device_.get(), policy, "");
    if (!status.ok()) Fail("mkfs: " + status.ToString());
  }

  // Checks the device, mounts it and compares it with the model. `disturbed`: commands of a first
  // mount can fail. Leaves no volume if the newest generation is lost.
  void Mount(bool disturbed) {
    if (!problem_.empty()) return;
    ++counts_->mounts;
    hopeless_ = false;
    Recovered recovered;
    const IOStatus found = Recover(device_.get(), &recovered);
    if (IsLostLog(found)) return MountLost();
    FindNamed();
    if (disturbed) {
      auto device = NewDevice();
      for (int i = 0; i < 2; ++i) InjectInto(device.get());
      if (Volume::Mount(std::move(device), {.tails_path = tails_}, &volume_).ok()) {
        Verify(Trust::kNothing);
      }
      volume_.reset();
      // It may have rolled over, and one of its failed commands may have been a reset. If it reset
      // the only copy in a zone that takes commands, nothing proves that the other one is the
      // newest.
      const IOStatus again = Recover(device_.get(), &recovered);
      if (IsLostLog(again)) return MountLost();
      if (!again.ok()) return Fail("a disturbed mount broke the log: " + again.ToString());
    }
    auto device = NewDevice();
    faulty_ = device.get();
    const IOStatus status = Volume::Mount(std::move(device), {.tails_path = tails_}, &volume_);
    if (!status.ok()) return Fail("mount: " + status.ToString());
    if (!volume_->read_only()) return Verify(Trust::kAll);
    ++counts_->read_only;
    const auto replaceable = [&](std::uint32_t zone) {
      return !broken_.contains(zone) && zone != recovered.metadata_zones.front();
    };
    const auto metadata = std::views::iota(std::uint32_t{0}, kMetadataZones);
    if (std::ranges::any_of(metadata, replaceable)) {
      Fail("read-only, but a metadata zone can be written");
    }
    Verify(Trust::kReads);  // a read-only mount made nothing durable
  }

  static bool IsLostLog(const IOStatus& status) {
    return status.getState() != nullptr &&
           std::string_view(status.getState()).starts_with("lost-log");
  }

  // The newest generation cannot be read, or it cannot be proved to be the newest.
  void MountLost() {
    std::vector<Violation> violations;
    if (!Check(device_.get(), &violations).ok() || violations.size() != 1)
      Fail("fsck of a lost log");
    std::size_t offline = 0;
    const std::size_t broken = BrokenMetadata(&offline);
    if (!newest_lost_ && (offline == 0 || broken < 2))
      Fail("refused without a reason: " + violations.front().what);
    auto device = NewDevice();
    faulty_ = device.get();
    const IOStatus status =
        Volume::Mount(std::move(device), {.salvage = true, .tails_path = tails_}, &volume_);
    if (newest_lost_) {
      ++counts_->lost;
      volume_.reset();
      if (!status.ok() && !IsLostLog(status)) Fail("salvage: " + status.ToString());
      return;
    }
    // The state is the newest one: a repair loses nothing.
    if (!status.ok()) return Fail("repair: " + status.ToString());
    ++counts_->repaired;
    if (volume_->read_only()) return Verify(Trust::kNothing);  // fsck cannot name losses
    FindNamed();
    Verify(Trust::kAll);
  }

  // Counts the metadata zones that the device gave up, and those of them that are offline.
  std::size_t BrokenMetadata(std::size_t* offline) {
    std::vector<ZoneInfo> zones;
    if (!device_->Report(0, kMetadataZones, &zones).ok()) Fail("report");
    std::size_t broken = 0;
    for (const ZoneInfo& zone : zones) {
      broken += zone.condition > ZoneCondition::kFull;
      if (offline != nullptr) *offline += zone.condition == ZoneCondition::kOffline;
    }
    return broken;
  }

  std::unique_ptr<FaultyDevice> NewDevice() {
    return std::make_unique<FaultyDevice>(device_.get(), capacities_);
  }

  // Runs fsck. It may find only losses in zones that the device gave up.
  void FindNamed() {
    std::vector<Violation> violations;
    const IOStatus status = Check(NewDevice().get(), &violations);
    if (!status.ok()) return Fail("fsck: " + status.ToString());
    named_.clear();
    for (const Violation& violation : violations) {
      if (violation.invariant != 10) Fail("fsck: " + violation.what);
      if (violation.what.starts_with("metadata zone")) continue;
      std::istringstream names(violation.what.substr(0, violation.what.find(':')));
      for (std::string name; std::getline(names >> std::ws, name, ',');) named_.insert(name);
    }
    counts_->named += named_.size();
    if (!named_.empty() && broken_.empty()) Fail("fsck: " + violations.front().what);
  }

  // How much of the content that a mount finds is certain.
  enum class Trust : std::uint8_t {
    kNothing,  // nothing: its commands can fail
    kReads,    // it changed nothing, so the next loss of power can take what it finds
    kAll,      // it made everything durable that it finds
  };

  void Verify(Trust trust) {
    for (auto& [name, entry] : entries_) {
      if (problem_.empty()) VerifyOne(name, &entry, trust);
    }
    for (const FileInfo& file : volume_->files().All()) {
      if (!entries_.contains(file.name)) Fail(file.name + " was never created");
    }
  }

  void VerifyOne(const std::string& name, Entry* entry, Trust trust) {
    const bool disturbed = trust == Trust::kNothing;
    std::shared_ptr<File> file;
    if (!volume_->files().Open(name, &file).ok()) {
      if (entry->must_exist && !entry->deleted) Fail(name + " is lost");
      if (trust == Trust::kAll) entry->gone = true;
      return;
    }
    if (entry->gone) return Fail(name + " came back");
    if (trust == Trust::kAll) {
      entry->must_exist = true;
      entry->deleted = false;
    }
    const bool excused = disturbed || named_.contains(name);
    std::string content(volume_->reader().Size(file.get()), '\0');
    Slice read;
    IOStatus status = volume_->reader().Read(file.get(), 0, content.size(), &read, content.data());
    if (!status.ok()) {
      if (!excused) Fail(name + ": " + status.ToString());
      return;
    }
    char beyond;
    status = volume_->reader().Read(file.get(), content.size(), 1, &read, &beyond);
    const bool cut = !status.ok();
    if (cut && !excused) return Fail(name + ": " + status.ToString());
    if (content.size() < entry->kept() && !cut) {
      return Fail(name + " has " + std::to_string(content.size()) + " bytes instead of " +
                  std::to_string(entry->kept()));
    }
    if (content.size() > entry->content.size()) return Fail(name + " is too long");
    for (std::size_t i = 0; i < content.size(); ++i) {
      if (content[i] == entry->content[i]) continue;
      // A full zone that lost its last unflushed blocks reads as zeros there.
      if (i >= entry->synced && content[i] == '\0') continue;
      return Fail(name + " differs at byte " + std::to_string(i));
    }
    if (trust != Trust::kAll || cut) return;
    entry->content = content;
    entry->synced = file->size;  // the rest is a tail that a kill left
    entry->handed = content.size();
    entry->failed = false;
  }

  void CloseFiles() {
    for (auto& [name, entry] : entries_) entry.file.reset();
    open_.clear();
    logs_[0].clear();
    logs_[1].clear();
  }

  // Ends the mount: a kill, a loss of power, or a clean end.
  void End() {
    const std::uint64_t how = Below(3);
    if (volume_ != nullptr) {
      counts_->collected += volume_->totals().written[static_cast<std::size_t>(Cause::kGc)].payload;
    }
    if (how != 0) faulty_->DieAfter(0);
    if (how == 0) faulty_->ClearFaults();
    CloseFiles();
    const bool clean = volume_ != nullptr && volume_->Close().ok();
    volume_.reset();
    if (how == 1) ++counts_->kills;
    const bool lost = how == 2 || (how == 0 && !clean);
    if (lost) LosePower();
    for (auto& [name, entry] : entries_) {
      if (lost) entry.handed = 0;
      entry.must_exist |= entry.handed > 0;
    }
  }

  void LosePower() {
    ++counts_->losses;
    std::vector<std::uint64_t> kept;
    const bool all = Below(3) == 0;
    for (const CachedWrite& write : EmulatedFaults::Cached(*device_)) {
      kept.push_back(all ? 0 : Below(2) == 0 ? write.blocks : Below(write.blocks + 1));
    }
    EmulatedFaults::PowerLoss(*device_, kept);
    LoseTails();
  }

  void LoseTails() {
    if (!tails_.empty()) std::filesystem::remove_all(tails_);
  }

  void InjectInto(FaultyDevice* device) {
    ++counts_->faults;
    constexpr Operation kOperations[] = {Operation::kRead,  Operation::kWrite, Operation::kWrite,
                                         Operation::kWrite, Operation::kFlush, Operation::kFinish,
                                         Operation::kReset};
    constexpr std::uint64_t kTimes[] = {1, 1, 1, 2, 5, 20, Fault::kForever};
    device->Inject({.operation = kOperations[Below(std::size(kOperations))],
                    .after = Below(12),
                    .times = kTimes[Below(std::size(kTimes))],
                    .landed_blocks = Below(4)});
  }

  void DisturbZone() {
    const std::uint32_t count = device_->geometry().zone_count;
    const auto zone = static_cast<std::uint32_t>(kMetadataZones + Below(count - kMetadataZones));
    ++counts_->zones;
    if (Below(8) == 0) return DisturbMetadata();
    const std::uint64_t how = Below(4);
    if (how < 2 && broken_.size() < kMostBrokenZones) {
      EmulatedFaults::BreakZone(*device_, zone,
                                how == 0 ? ZoneCondition::kReadOnly : ZoneCondition::kOffline);
      broken_.insert(zone);
    } else if (how == 2) {
      device_->FinishZone(zone).PermitUncheckedError();  // a broken zone cannot be finished
    } else {
      faulty_->ShrinkAtReset(zone, 16 << 10);
    }
  }

  // Any zone of the metadata log becomes read-only or offline.
  void DisturbMetadata() {
    const auto zone = static_cast<std::uint32_t>(Below(kMetadataZones));
    std::vector<ZoneInfo> info;
    if (!device_->Report(zone, 1, &info).ok()) return Fail("report");
    if (info[0].condition > ZoneCondition::kFull) return;
    const bool offline = Below(3) == 0;
    std::vector<std::uint32_t> copies = DurableCopies();
    EmulatedFaults::BreakZone(*device_, zone,
                              offline ? ZoneCondition::kOffline : ZoneCondition::kReadOnly);
    broken_.insert(zone);
    if (!offline || info[0].write_pointer == 0) return;
    // Until a later state is durable elsewhere, the loss of the only copy is allowed.
    std::erase(copies, zone);
    newest_lost_ |= copies.empty();
    if (Below(2) == 0) faulty_->DieAfter(0);
  }

  // The zones of the metadata log that survive a loss of power.
  std::vector<std::uint32_t> DurableCopies() {
    std::unique_ptr<EmulatedDevice> clone;
    if (!EmulatedFaults::Clone(*device_, name_ + "-clone", &clone).ok()) Fail("clone");
    if (clone == nullptr) return {};
    EmulatedFaults::PowerLoss(*clone, {});
    Recovered recovered;
    Recover(clone.get(), &recovered).PermitUncheckedError();
    clone.reset();
    Image::ForgetMemory(name_ + "-clone");
    return recovered.metadata_zones;
  }

  std::string NewFile(FileKind kind) {
    const bool log = kind == FileKind::kLog;
    const std::string name = "/" + std::to_string(entries_.size()) + (log ? ".log" : ".sst");
    Entry& entry = entries_[name];
    entry.kind = kind;
    if (!volume_->files().Create(name, kind, &entry.file).ok()) {
      entry.failed = true;
      return name;
    }
    // Under one policy, flushes wait for compactions, and WALs wait for the end of jobs. This load
    // has one thread, so nothing would end while it waits.
    const Placement table{.cause = Cause::kCompaction,
                          .lifetime = static_cast<std::uint8_t>(2 + Below(4))};
    volume_->writer().SetPlacement(entry.file.get(),
                                   log ? Placement{.cause = Cause::kWal, .lifetime = 2} : table);
    return name;
  }

  void Append(Entry* entry, std::uint64_t size) {
    std::string more(size, '\0');
    for (char& byte : more) byte = static_cast<char>(1 + Below(255));
    entry->content += more;
    Note(entry, volume_->writer().Append(entry->file.get(), more));
  }

  void Sync(Entry* entry) {
    const IOStatus status = volume_->writer().Sync(entry->file.get());
    Note(entry, status);
    if (!status.ok()) return;
    entry->synced = entry->content.size();
    entry->must_exist = true;
  }

  // A file whose operation failed takes no more data. RocksDB continues with other files.
  void Note(Entry* entry, const IOStatus& status) {
    if (status.ok()) return;
    entry->failed = true;
    ++failures_;
    hopeless_ = status.IsNoSpace() || failures_ > 12;
  }

  void Finish(Entry* entry) {
    if (entry->file != nullptr) Note(entry, volume_->writer().FinishWriting(entry->file.get()));
    const std::lock_guard lock(shared_mutex_);
    if (entry->file != nullptr && !entry->failed) shared_[entry->file->name] = entry->content;
    entry->file.reset();
  }

  void StepLog() {
    std::string& log = logs_[Below(2)];  // two databases have one WAL each
    if (!log.empty() && (entries_[log].failed || entries_[log].content.size() > 40000)) {
      Finish(&entries_[log]);
      log.clear();
    }
    if (log.empty()) log = NewFile(FileKind::kLog);
    Entry& entry = entries_[log];
    if (entry.failed) return;
    Append(&entry, 1 + Below(6000));
    const std::uint64_t choice = Below(4);
    if (!entry.failed && choice < 2) Sync(&entry);
    if (!entry.failed && choice == 2) Hand(&entry);
  }

  void Hand(Entry* entry) {
    FileWriter& writer = volume_->writer();
    const bool saves = Below(3) != 0;
    File* const file = entry->file.get();
    const IOStatus status = saves ? writer.SaveBuffer(file) : writer.WriteBuffer(file);
    Note(entry, status);
    if (!status.ok()) return;
    entry->handed = entry->content.size();
    counts_->saved += file->tail_size > 0 ? 1 : 0;
  }

  void StepTable() {
    if (open_.size() < kMostOpen && Below(3) == 0) open_.push_back(NewFile(FileKind::kData));
    if (open_.empty()) return;
    const std::size_t index = Below(open_.size());
    Entry& entry = entries_[open_[index]];
    const std::uint64_t choice = Below(4);
    if (!entry.failed && choice < 2) Append(&entry, 1 + Below(15000));
    if (!entry.failed && choice == 2) Sync(&entry);
    if (entry.failed || choice == 3) {
      Finish(&entry);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  // A closed table gets one more name, as in a checkpoint.
  void StepLink() {
    std::vector<std::string> candidates;
    for (const auto& [name, entry] : entries_) {
      const bool closed = entry.file == nullptr && entry.kind == FileKind::kData;
      const bool whole = !entry.failed && !named_.contains(name);
      if (closed && whole && !entry.deleted && !entry.gone) candidates.push_back(name);
    }
    if (candidates.empty()) return;
    const std::string& name = candidates[Below(candidates.size())];
    const std::string link = "/" + std::to_string(entries_.size()) + ".sst";
    const IOStatus status = volume_->files().Link(name, link);
    if (!status.ok()) return Fail(name + " gets no link: " + status.ToString());
    const Entry& table = entries_.at(name);
    Entry& entry = entries_[link];
    entry.content = table.content;
    entry.synced = table.synced;
    entry.linked = true;
  }

  void StepDelete() {
    std::vector<std::string> candidates;
    for (const auto& [name, entry] : entries_) {
      if (entry.file == nullptr && !entry.deleted && !entry.gone) candidates.push_back(name);
    }
    if (candidates.empty()) return;
    const std::string& name = candidates[Below(candidates.size())];
    {
      const std::lock_guard lock(shared_mutex_);
      shared_.erase(name);
    }
    entries_[name].deleted = true;
    volume_->files().Delete(name).PermitUncheckedError();  // the file may be lost already
  }

  void StepNames() {
    if (!volume_->files().SyncNames().ok()) {
      ++failures_;
      return;
    }
    for (auto& [name, entry] : entries_) {
      if (entry.deleted) entry.gone = true;
      if (entry.linked && !entry.deleted && !entry.gone) entry.must_exist = true;
    }
    Recovered recovered;
    if (newest_lost_ && Recover(device_.get(), &recovered).ok()) newest_lost_ = false;
  }

  // Starts a thread that reads files which no longer change, until StopReader.
  void StartReader() {
    reader_ = std::jthread([this, seed = random_()](const std::stop_token& stop) {
      std::mt19937_64 random(seed);
      while (!stop.stop_requested()) {
        std::string name;
        std::string content;
        std::shared_ptr<File> file;
        {
          const std::lock_guard lock(shared_mutex_);
          if (!shared_.empty()) {
            auto at = shared_.begin();
            std::advance(at, static_cast<std::ptrdiff_t>(random() % shared_.size()));
            std::tie(name, content) = *at;
            volume_->files().Open(name, &file).PermitUncheckedError();
          }
        }
        if (file == nullptr) {
          std::this_thread::yield();
          continue;
        }
        std::string read(content.size(), '\0');
        Slice part;
        const IOStatus status =
            volume_->reader().Read(file.get(), 0, read.size(), &part, read.data());
        if (status.ok() && (part.size() != read.size() || read != content)) {
          const std::lock_guard lock(shared_mutex_);
          reader_problem_ = name + " reads as something else in another thread";
        }
        ++reads_;
      }
    });
  }

  void StopReader() {
    if (!reader_.joinable()) return;
    reader_ = {};
    counts_->reads += reads_.exchange(0);
    shared_.clear();
    if (!reader_problem_.empty()) Fail(reader_problem_);
  }

  // Latency without a clock: each of the next commands waits for some reads of the other thread.
  void SlowDown() {
    const std::uint64_t reads = 1 + Below(4);
    faulty_->SlowDown(1 + Below(6), [this, reads] {
      for (const std::uint64_t from = reads_; reads_ < from + reads && HasShared();) {
        std::this_thread::yield();
      }
    });
  }

  bool HasShared() {
    const std::lock_guard lock(shared_mutex_);
    return !shared_.empty() && !reader_.get_stop_token().stop_requested();
  }

  // Readers see everything that was appended, synced or not.
  void StepRead() {
    if (entries_.empty()) return;
    auto at = entries_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(Below(entries_.size())));
    const auto& [name, entry] = *at;
    if (entry.failed || entry.deleted || entry.gone || named_.contains(name)) return;
    std::shared_ptr<File> file;
    if (!volume_->files().Open(name, &file).ok()) return Fail(name + " cannot be opened");
    if (volume_->reader().Size(file.get()) != entry.content.size())
      return Fail(name + ": wrong size");
    std::string content(entry.content.size(), '\0');
    Slice read;
    const IOStatus status =
        volume_->reader().Read(file.get(), 0, content.size(), &read, content.data());
    if (status.ok() && content != entry.content) Fail(name + " reads as something else");
  }

  std::uint64_t LiveBytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, entry] : entries_) {
      if (!entry.deleted && !entry.gone) sum += entry.content.size();
    }
    return sum;
  }

  void Step() {
    const std::uint64_t choice = Below(100);
    const bool full = LiveBytes() > volume_->Space().capacity / 5;
    if (full || choice < 8) {
      StepDelete();
      if (full) StepNames();
    } else if (choice < 45) {
      StepLog();
    } else if (choice < 80) {
      StepTable();
    } else if (choice < 82 && links_) {
      StepLink();
    } else if (choice < 84) {
      StepNames();
    } else if (choice < 92) {
      StepRead();
    } else if (choice < 97) {
      if (readers_ && Below(3) == 0) {
        SlowDown();
      } else {
        InjectInto(faulty_);
      }
    } else {
      DisturbZone();
    }
  }

  std::mt19937_64 random_;
  const std::string name_;
  ScheduleCounts* const counts_;
  std::unique_ptr<EmulatedDevice> device_;
  FaultyDevice* faulty_ = nullptr;
  std::unique_ptr<Volume> volume_;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> open_;  // tables
  std::string logs_[2];
  std::set<std::uint32_t> broken_;  // read-only and offline zones
  std::set<std::string> named_;     // files whose loss fsck names
  bool newest_lost_ = false;        // perhaps no zone that can be read has the newest generation
  // Zones that a reset made smaller.
  const std::shared_ptr<std::map<std::uint32_t, std::uint64_t>> capacities_ =
      std::make_shared<std::map<std::uint32_t, std::uint64_t>>();

  const std::string tails_;  // folder; empty: none are saved
  const bool readers_;
  const bool links_;
  std::mutex shared_mutex_;                    // guards the next two members
  std::map<std::string, std::string> shared_;  // files for the other thread
  std::string reader_problem_;
  std::atomic<std::uint64_t> reads_ = 0;
  std::jthread reader_;
  int failures_ = 0;
  bool hopeless_ = false;
  std::string problem_;
};

}  // namespace

std::string RunSchedule(std::uint64_t seed, ScheduleCounts* counts) {
  return Schedule(seed, counts).Run();
}

}  // namespace zlfs::crash
