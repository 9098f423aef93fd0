// A mounted zlfs.
//
// Lock order:
//   File::tail_mutex        a writer's buffer
//   collecting_             only one thread collects garbage or makes room
//   zone lock               one write, finish or reset at a time per zone
//   MetaLog's write mutex
//   state_                  names, extents, allocator
//   File::map_mutex and the internal mutexes of totals, device and log

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
#include "zlfs/fs/patience.h"
#include "zlfs/fs/read_pool.h"
#include "zlfs/fs/resetter.h"
#include "zlfs/meta/log.h"
#include "zlfs/meta/recover.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// The metadata log needs two active zones during a roll-over. Each shared cause needs one, and data
// needs at least one.
inline constexpr std::uint32_t kMinActiveZones = kMetadataActive + kSharedCauses + 1;
// Enough for the metadata, one zone per cause, the reserved empty zones, and some zones to reuse.
inline constexpr std::uint32_t kMinZones = 16;

// Reads the zone report and checks that zlfs supports the device. Errors: "too-few-zones",
// "limits-too-small", "conventional-zone".
IOStatus CheckDevice(ZonedDevice* device, std::vector<ZoneInfo>* zones);

// Formats the device. If `erase` equals the device's identity, resets zones that hold data.
// Otherwise such zones are an error ("not-empty").
IOStatus Mkfs(ZonedDevice* device, const Policy& policy, const std::string& erase,
              const std::string& label = "");

// Applies the options to the policy (docs/zlfs.md). Errors: "bad-option" with the allowed values,
// "unknown-option".
IOStatus ChangePolicy(OptionMap options, Policy* policy);

struct MountOptions {
  bool read_only = false;
  // Takes the best state that can be read, if the newest cannot. Read-write, this makes the volume
  // mountable again, and drops what that state does not contain.
  bool salvage = false;
  OptionMap policy = {};         // overrides the policy in the superblock
  std::string ledger_path = {};  // empty: no ledger file
  std::string trace_path = {};   // allocation trace; empty: no trace
  std::shared_ptr<Patience> patience = std::make_shared<Patience>();
  TracedReads trace_reads = TracedReads::kCompaction;
};

class Volume {
 public:
  // Recovers the volume from the device. A read-write mount needs a device opened with kReadWrite.
  // It is read-only if no metadata zone can be written.
  static IOStatus Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                        std::unique_ptr<Volume>* volume);
  ~Volume();
  // Makes all names durable and writes the last line of the ledger. Files must not be used after
  // this call.
  IOStatus Close();

  // Names must be canonical (IsCanonical). Create and Open return a handle. Releasing the last copy
  // of a handle locks state_. A deleted file is removed with its last handle.
  IOStatus Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file);
  IOStatus Open(const std::string& name, std::shared_ptr<File>* file);
  IOStatus Delete(const std::string& name);
  IOStatus Rename(const std::string& from, const std::string& to);
  IOStatus RenameDirectory(const std::string& from, const std::string& to);
  bool Exists(const std::string& name);
  // Returns the names of the files directly in the directory.
  std::vector<std::string> List(const std::string& directory);
  bool HasFilesBelow(const std::string& directory);
  // Makes all creations, deletions and renames durable.
  IOStatus SyncNames();

  // Only one thread at a time may append to a file. Syncs and reads may run concurrently.
  void SetPlacement(File* file, const Placement& placement);
  IOStatus Append(File* file, Slice data);
  // Hands all appended data to the device, so that it survives the end of the process.
  IOStatus WriteBuffer(File* file);
  // Makes all appended data durable.
  IOStatus Sync(File* file);
  // Ends writing: writes the buffer, but does not make it durable. `finish_zone` finishes the
  // writer's zone even if it has room left.
  IOStatus FinishWriting(File* file, bool finish_zone = false);
  std::uint64_t Size(File* file);
  // Reads fewer than `size` bytes only at the end of the file.
  IOStatus Read(File* file, std::uint64_t offset, std::size_t size, Slice* read, char* to);
  // Reads, and records the read if the trace holds such reads.
  IOStatus TracedRead(File* file, bool compaction, std::uint64_t offset, std::size_t size,
                      Slice* read, char* to);

  // Calls work(0) to work(count - 1), which read. In parallel if the device answers reads in
  // parallel; a device in memory is copied from faster by one thread.
  void ReadMany(std::size_t count, const ReadPool::Work& work);

  SpaceUse Space();
  Totals totals() const { return io_.totals(); }
  TotalsRecord SinceMkfs() const;
  std::vector<FileInfo> Files();
  std::vector<ZoneSpace> Zones();
  bool read_only() const { return !read_only_.empty(); }
  // What a salvaged state does not contain.
  const std::vector<std::string>& losses() const { return losses_; }
  const Superblock& superblock() const { return superblock_; }
  ZonedDevice* device() { return device_.get(); }

 private:
  struct LogZone {
    std::uint64_t offset = 0;    // start of the pieces in the zone
    std::uint64_t position = 0;  // log position of the LogZoneRecord
    std::uint64_t end = 0;       // log position of the LogZoneEndRecord; 0: not appended yet
  };
  // Extents that become garbage when the log is durable up to `position`.
  struct Freed {
    std::uint64_t position = 0;
    std::vector<Extent> extents;
  };
  struct ZoneLock {
    // Held during each write, finish and reset, so that only one thread moves the write pointer.
    std::mutex mutex;
    std::uint64_t last_piece = 0;  // header checksum of the last piece; guarded by mutex
  };

  Volume(std::unique_ptr<ZonedDevice> device, const MountOptions& options);
  IOStatus Load(Recovered recovered);
  IOStatus BeginLog(const Recovered& recovered);
  IOStatus EndLog();
  IOStatus LimitActive(const Recovered& recovered);
  void Describe(std::vector<Record>* records);  // requires state_
  IOStatus CheckWritable() const;
  // Returns the allocator's decision; waits while the decision is kWait. `subject` is the file id,
  // or the run index during garbage collection. `state` holds state_.
  Decision Allocate(std::unique_lock<std::mutex>* state, const Request& request,
                    std::uint64_t subject, FileKind kind, std::uint64_t content);
  // Applies the record and appends it to the log. Returns its log position. Requires state_.
  std::uint64_t Change(const Record& record);

  std::shared_ptr<File> Handle(const std::shared_ptr<File>& file);  // requires state_
  std::shared_ptr<const ExtentMap> Map(File* file);
  void ForgetMap(File* file);
  // Appends a record of all extents from offset `from` on. Requires state_.
  void RecordFrom(File* file, std::uint64_t from);
  // Handles a file without a name: frees its extents when no handle is left. Requires state_.
  void Forget(const std::shared_ptr<File>& file);

  // Writes the buffer. After a failed write, it goes on in another zone. If several zones in a row
  // fail, the error is permanent for the file and discards the unwritten bytes: bytes whose sync
  // failed must not become durable later. Requires tail_mutex.
  IOStatus WriteTail(File* file);
  IOStatus WriteOut(File* file);
  // Writes the buffer to the granted zone, then calls `written` with state_ held. The buffer of a
  // log file starts with space for a piece header. After an error, the zone takes no more writes.
  // "Aborted": another write to the zone failed first, so nothing was written.
  using Written = std::function<void(const Extent& extent)>;
  IOStatus WriteGranted(const Decision& grant, Cause cause, std::uint64_t subject, char* buffer,
                        std::size_t content, const File* log, const Written& written);
  // Requires state_. `released`: the extents come from `freed_`.
  void Free(const std::vector<Extent>& extents, bool released);
  // Makes the extents garbage as soon as the log is durable. Requires state_.
  void FreeLater(std::vector<Extent> extents);
  // Reserves room for up to `size` bytes.
  IOStatus Reserve(File* file, std::uint64_t size, Decision* grant);
  // Waits until returns_ differs from `returns`. Returns false if no space is likely to return.
  bool SpaceReturns(Cause cause, std::uint64_t returns);
  // A failed finish costs only the zone's room, so it is no error of the caller.
  void FinishZone(std::uint32_t zone, FinishCause cause);
  // Asks the device for the state of a zone after a failed command, and frees its active slot.
  // Requires the zone's lock.
  void Settle(std::uint32_t zone);
  IOStatus ReadExtents(const ExtentMap& map, std::uint64_t offset, std::size_t size, char* to);

  // Makes the log durable up to `position`, then begins to reset the zones that this freed.
  IOStatus Commit(std::uint64_t position);
  // Begins to reset zones without live data. With `hard`, also resets active zones, commits the log
  // as needed, and returns when all resets are done. Sets `*reset` to true if a zone was reset.
  IOStatus Reclaim(bool hard, bool* reset = nullptr);
  void ResetZone(std::uint32_t zone);
  // Returns whether readers and the log allow a reset of the zone. Sets `*needs_commit` to true if
  // the zone waits for a log commit. Requires state_.
  bool MayReset(std::uint32_t zone, bool* needs_commit);

  // Copies victim content in proportion to `written` bytes (PriceOf); writers call it while space
  // is low. Does nothing if another thread is collecting.
  void Pay(std::uint64_t written);
  // Frees at least one zone or returns NoSpace. A writer calls it when no zone is available.
  IOStatus MakeRoom();
  // The next five functions require collecting_.
  bool ChooseVictim();
  IOStatus Collect(std::uint64_t bytes);  // adds its duration to collecting_time_
  IOStatus CopyRuns(std::uint64_t bytes);
  IOStatus CopyRun(Run* run);
  IOStatus MoveRuns();

  // Writes one ledger line per second.
  void KeepLedger(const std::stop_token& stop);
  std::string LedgerLine(const char* event);

  const std::unique_ptr<ZonedDevice> device_;
  std::string read_only_;  // why; empty: read-write. Constant after the mount
  const bool salvage_;
  const std::shared_ptr<Patience> patience_;
  std::vector<std::string> losses_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::time_t mounted_ = std::time(nullptr);
  ZoneIo io_;
  ReadPool read_pool_;
  Superblock superblock_;
  std::vector<ZoneLock> zone_locks_;
  std::atomic<std::uint64_t> piece_number_ = 0;
  std::atomic<std::uint64_t> collected_zones_ = 0;
  std::atomic<std::chrono::nanoseconds> collecting_time_ = std::chrono::nanoseconds(0);
  std::atomic<bool> low_space_ = false;
  bool closed_ = false;

  std::mutex state_;                 // guards the members up to pins_
  std::condition_variable changed_;  // signals that a writer left its zone or a zone changed
  std::uint64_t returns_ = 0;        // counts closed writers, removed files and reset zones
  Namespace space_;                  // includes deleted files in use; totals as of the mount
  std::unique_ptr<Allocator> allocator_;
  AllocationTrace trace_;
  std::map<std::uint32_t, LogZone> log_zones_;
  std::vector<Freed> freed_;
  std::vector<Retirement> retired_;              // since the last ledger line
  std::vector<std::weak_ptr<const void>> pins_;  // per zone; expired if no extent map uses it

  std::unique_ptr<MetaLog> log_;

  std::mutex collecting_;  // guards the members up to run_buffer_
  std::optional<std::uint32_t> victim_;
  std::vector<Run> runs_;     // live content of the victim
  std::size_t next_run_ = 0;  // first run that is not copied yet
  AlignedBuffer run_buffer_;

  Resetter resetter_;

  std::ofstream ledger_;  // used only by ledger_thread_ while it runs
  std::jthread ledger_thread_;
};

}  // namespace zlfs
