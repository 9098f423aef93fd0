// A mounted zlfs.
//
// Locks, in the order in which they are taken:
//   File::tail_mutex        a writer's buffer
//   collecting_             one thread collects or makes room at a time
//   zone lock               one outstanding write per zone
//   MetaLog's write mutex
//   state_                  names, extents, allocator
//   File::map_mutex, and the small mutexes of ledger, device and log

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "zlfs/account/trace.h"
#include "zlfs/fs/ledger.h"
#include "zlfs/meta/log.h"
#include "zlfs/meta/recover.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// The metadata log takes two (two while it rolls over); WALs, other files and the collector one
// each, and one is left for data.
inline constexpr std::uint32_t kMinActiveZones = kMetadataZones + kSharedCauses + 1;
// Metadata, one zone per cause, those kept empty, and some to turn over.
inline constexpr std::uint32_t kMinZones = 16;

// Whether zlfs can be on a device with these zones, which it asks for. Errors: "too-few-zones",
// "limits-too-small", "conventional-zone".
IOStatus CheckDevice(ZonedDevice* device, std::vector<ZoneInfo>* zones);

// Makes an empty zlfs. Refuses zones that are not empty ("not-empty") unless `erase` is the
// device's identity; then it resets them.
IOStatus Mkfs(ZonedDevice* device, const Policy& policy, const std::string& erase,
              const std::string& label = "");

// Changes the policy as the options say (docs/zlfs.md). Errors: "bad-option" with the values that
// are allowed, "unknown-option".
IOStatus ChangePolicy(OptionMap options, Policy* policy);

struct MountOptions {
  bool read_only = false;
  OptionMap policy = {};         // changes to the policies of the superblock
  std::string ledger_path = {};  // empty: no ledger file
  std::string trace_path = {};   // of allocations, empty: none
};

class Volume {
 public:
  // Recovers what is on the device. Read-write: the device must have been opened so.
  static IOStatus Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                        std::unique_ptr<Volume>* volume);
  ~Volume();
  // Makes all names durable, writes the last line of the ledger. Files must not be used any more.
  IOStatus Close();

  // Names are canonical (IsCanonical). Create and Open give a handle; the last copy of it takes the
  // volume's lock when it goes, and a file without a name is gone with its last handle.
  IOStatus Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file);
  IOStatus Open(const std::string& name, std::shared_ptr<File>* file);
  IOStatus Delete(const std::string& name);
  IOStatus Rename(const std::string& from, const std::string& to);
  void RenameDirectory(const std::string& from, const std::string& to);
  bool Exists(const std::string& name);
  // Names directly in the directory.
  std::vector<std::string> List(const std::string& directory);
  bool HasFilesBelow(const std::string& directory);
  // Makes what was done to names durable.
  IOStatus SyncNames();

  // One thread at a time appends to a file; sync and reads may run beside it.
  void SetPlacement(File* file, const Placement& placement);
  IOStatus Append(File* file, Slice data);
  // Everything appended is durable when it returns.
  IOStatus Sync(File* file);
  // The writer is done: writes its buffer, without making it durable. With `finish_zone` its zone
  // is finished whatever room it has.
  IOStatus FinishWriting(File* file, bool finish_zone = false);
  std::uint64_t Size(File* file);
  // Fewer bytes than asked for at the end of the file.
  IOStatus Read(File* file, std::uint64_t offset, std::size_t size, Slice* read, char* to);

  SpaceUse Space();
  Totals totals() const { return io_.totals(); }
  TotalsRecord SinceMkfs() const;
  std::vector<FileInfo> Files();
  std::vector<ZoneSpace> Zones();
  const Superblock& superblock() const { return superblock_; }
  ZonedDevice* device() { return device_.get(); }

 private:
  struct LogZone {
    std::uint64_t offset = 0;    // where pieces begin
    std::uint64_t position = 0;  // of its record in the log
    std::uint64_t end = 0;       // position of the record that ends it, 0: none yet
  };
  // Extents that are garbage once the log is durable up to `position`.
  struct Freed {
    std::uint64_t position = 0;
    std::vector<Extent> extents;
  };
  struct ZoneLock {
    // Held during each write, finish and reset: nobody else changes the zone's write pointer.
    std::mutex mutex;
    std::uint64_t last_piece = 0;  // its header's checksum; guarded by mutex
  };

  Volume(std::unique_ptr<ZonedDevice> device, bool read_only);
  IOStatus Load(Recovered recovered);
  IOStatus BeginLog(const Recovered& recovered);
  IOStatus EndLog();
  IOStatus LimitActive(const Recovered& recovered);
  void Describe(std::vector<Record>* records);  // state_ is held
  // What the file (number of the run, of the collector's) is given, if need be once others are
  // done. `state` holds state_.
  Decision Allocate(std::unique_lock<std::mutex>* state, const Request& request,
                    std::uint64_t subject, FileKind kind, std::uint64_t content);
  // Does what the record says, and appends it to the log; its position there. state_ is held.
  std::uint64_t Change(const Record& record);

  std::shared_ptr<File> Handle(const std::shared_ptr<File>& file);  // state_ is held
  std::shared_ptr<const ExtentMap> Map(File* file);
  void ForgetMap(File* file);
  void RecordFrom(File* file, std::uint64_t from);  // all bytes, from this one on; state_ is held
  void Forget(const std::shared_ptr<File>& file);   // state_ is held: its name is gone

  // Writes the buffer. After an error the file's writer gets it ever after, and what was not
  // written is gone: bytes whose sync failed must not become durable later. tail_mutex is held.
  IOStatus WriteTail(File* file);
  IOStatus WriteOut(File* file);
  // Writes the buffer, which begins with a piece's header if it is a log's, and then calls
  // `written` with state_ held.
  using Written = std::function<void(const Extent& extent)>;
  IOStatus WriteGranted(const Decision& grant, Cause cause, std::uint64_t subject, char* buffer,
                        std::size_t content, const File* log, const Written& written);
  void Free(const std::vector<Extent>& extents);  // state_ is held
  // Reserves room for up to `size` bytes.
  IOStatus Reserve(File* file, std::uint64_t size, Decision* grant);
  // Waits until returns_ is another one. False: there is no hope for it.
  bool SpaceReturns(Cause cause, std::uint64_t returns);
  IOStatus FinishZone(std::uint32_t zone, FinishCause cause);
  IOStatus ReadExtents(const ExtentMap& map, std::uint64_t offset, std::size_t size, char* to);

  // Makes the log durable up to `position`, then resets what that made free.
  IOStatus Commit(std::uint64_t position);
  // Resets zones that hold nothing; with `hard` also the active ones, and commits what is needed
  // for it. `reset`: whether there were any.
  IOStatus Reclaim(bool hard, bool* reset = nullptr);
  void ResetZone(std::uint32_t zone);
  // Whether the zone may be reset as far as readers and the log are concerned. state_ is held.
  bool MayReset(std::uint32_t zone, bool* needs_commit);

  // While space is low: moves as much as writing `written` bytes has to be paid with. Does nothing
  // when another thread is collecting.
  IOStatus Pay(std::uint64_t written);
  // Called by a writer that found no zone: frees at least one, or returns NoSpace.
  IOStatus MakeRoom();
  bool ChooseVictim();  // collecting_ is held, as for what follows
  IOStatus Collect(std::uint64_t bytes);
  IOStatus CopyRun(Run* run);
  IOStatus MoveRuns();

  // Writes a line of the ledger once a second.
  void KeepLedger(const std::stop_token& stop);
  std::string LedgerLine(const char* event);

  const std::unique_ptr<ZonedDevice> device_;
  const bool read_only_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::time_t mounted_ = std::time(nullptr);
  ZoneIo io_;
  Superblock superblock_;
  std::vector<ZoneLock> zone_locks_;
  std::atomic<std::uint64_t> piece_number_ = 0;
  std::atomic<std::uint64_t> collected_zones_ = 0;
  std::atomic<bool> low_space_ = false;
  bool closed_ = false;

  std::mutex state_;                 // guards what follows
  std::condition_variable changed_;  // a writer left its zone, or something was done to a zone
  std::uint64_t returns_ = 0;        // writers and files that are gone, zones that were reset
  Namespace space_;                  // keeps deleted files that are in use; totals up to the mount
  std::unique_ptr<Allocator> allocator_;
  AllocationTrace trace_;
  std::map<std::uint32_t, LogZone> log_zones_;
  std::vector<Freed> freed_;
  std::vector<Retirement> retired_;              // since the ledger's last line
  std::vector<std::weak_ptr<const void>> pins_;  // by zone, of maps that lead there

  std::unique_ptr<MetaLog> log_;

  std::mutex collecting_;  // guards what follows
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;     // of the victim's content
  std::size_t next_run_ = 0;  // the first that was not copied
  AlignedBuffer run_buffer_;

  std::ofstream ledger_;  // the thread's, while it runs
  std::jthread ledger_thread_;
};

}  // namespace zlfs
