// A mounted zlfs.
//
// Lock order:
//   File::tail_mutex        a writer's buffer; a WAL's mutex before those of earlier WALs
//   Collector::collecting_  only one thread collects garbage or makes room
//   zone lock               one write, finish or reset at a time per zone (ZoneCommands)
//   MetaLog::write_         one frame or roll-over at a time
//   the state mutex         VolumeState::mutex: files, extents, allocator
//   File::map_mutex and the internal mutexes of totals, device and log

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zlfs/fs/collector.h"
#include "zlfs/fs/file_reader.h"
#include "zlfs/fs/file_table.h"
#include "zlfs/fs/file_writer.h"
#include "zlfs/fs/ledger_file.h"
#include "zlfs/fs/log_zones.h"
#include "zlfs/fs/patience.h"
#include "zlfs/fs/reclaimer.h"
#include "zlfs/fs/volume_state.h"
#include "zlfs/fs/zone_commands.h"
#include "zlfs/meta/recover.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// The metadata log needs two active zones, one per copy. Each shared cause needs one, and data
// needs at least one.
inline constexpr std::uint32_t kMinActiveZones = kMetadataActive + kSharedCauses + 1;
// Enough for the metadata, one zone per cause, the reserved empty zones, and some zones to reuse.
inline constexpr std::uint32_t kMinZones = 16;

// Checks that enough zones can be active. Error: "limits-too-small".
IOStatus CheckLimits(const Geometry& geometry);

// Reads the zone report and checks that the device can get a volume. A volume stays usable if the
// device later loses zones. Errors: "too-few-zones", "limits-too-small", "conventional-zone".
IOStatus CheckDevice(ZonedDevice* device, std::vector<ZoneInfo>* zones);

// More generations than follow a state that cannot be read now. A new volume, or a repaired one,
// skips them: if such a zone becomes readable, its generation counts as older.
inline constexpr std::uint64_t kSkippedGenerations = 1 << 20;

// Formats the device. If `erase` equals the device's identity, resets zones that hold data.
// Otherwise such zones are an error ("not-empty"). A label that is too long is "bad-label".
IOStatus Mkfs(ZonedDevice* device, const Policy& policy, const std::string& erase,
              const std::string& label = "");

// Applies the options to the policy (docs/zlfs.md). Errors: "bad-option" with the allowed values,
// "unknown-option".
IOStatus ChangePolicy(OptionMap options, Policy* policy);

struct MountOptions {
  bool read_only = false;
  // If the newest state cannot be read, takes the best one that can. A read-write mount then makes
  // this state the newest: the volume can be mounted again, and later changes are lost.
  bool salvage = false;
  OptionMap policy = {};         // replaces values of the policy in the superblock
  std::string ledger_path = {};  // empty: no ledger file
  std::chrono::seconds ledger_interval{1};
  std::string trace_path = {};  // allocation trace; empty: no trace
  std::string tails_path = {};  // folder for ends of WALs (meta/saved_tail.h); empty: none is saved
  std::shared_ptr<Patience> patience = std::make_shared<Patience>();
  TracedReads trace_reads = TracedReads::kCompaction;
};

// A mounted volume. This class mounts and closes; its parts do the rest. Each part owns the data
// that its header declares.
class Volume {
 public:
  // Recovers the volume from the device. A read-write mount needs a device opened with kReadWrite.
  // If the metadata log cannot begin, the mount becomes read-only: no metadata zone can be written,
  // a flush fails, too many zones are active, or the names do not fit into a zone.
  static IOStatus Mount(std::unique_ptr<ZonedDevice> device, const MountOptions& options,
                        std::unique_ptr<Volume>* volume);
  ~Volume();
  // Writes the ends of WALs, makes all names durable, waits for finishes and resets, and writes the
  // last line of the ledger. Files must not be used after this call.
  IOStatus Close();

  FileTable& files() { return files_; }
  FileWriter& writer() { return writer_; }
  FileReader& reader() { return reader_; }

  SpaceUse Space();
  std::vector<ZoneSpace> Zones();
  Totals totals() const { return state_.io.totals(); }
  TotalsRecord SinceMkfs() const;
  bool read_only() const { return !state_.read_only.empty(); }
  // Begins with the name of an error, unless the mount was asked to be read-only.
  const std::string& why_read_only() const { return state_.read_only; }
  // The changes that a salvaged state does not contain.
  const std::vector<std::string>& losses() const { return losses_; }
  const Superblock& superblock() const { return state_.superblock; }
  ZonedDevice* device() { return state_.device.get(); }

 private:
  Volume(std::unique_ptr<ZonedDevice> device, const MountOptions& options);
  IOStatus Load(Recovered recovered);
  IOStatus LoadTails();
  AllocatorSetup SetupOf(const Recovered& recovered);
  void TraceSetup(const AllocatorSetup& setup);
  IOStatus BeginLog(const Recovered& recovered);
  IOStatus EndLog();
  IOStatus LimitActive(const Recovered& recovered);
  void Describe(std::vector<Record>* records);  // requires the state mutex

  const bool salvage_;
  std::vector<std::string> losses_;
  bool closed_ = false;

  VolumeState state_;
  LogZones log_zones_;
  ZoneCommands commands_;
  FileReader reader_;
  Reclaimer reclaimer_;
  FileTable files_;
  Collector collector_;
  SavedTails tails_;
  FileWriter writer_;
  LedgerFile ledger_;
};

}  // namespace zlfs
