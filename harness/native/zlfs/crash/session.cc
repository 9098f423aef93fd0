#include "zlfs/crash/session.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "zlfs/fs/check.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/fs/volume.h"
#include "zlfs/zoned/open.h"

namespace zlfs::crash {
namespace {

using rocksdb::Status;

OptionMap MountOptionsOf(const std::string& aux) { return {{"aux", aux}}; }

Status CheckInvariants(const Place& place, const char* when) {
  std::unique_ptr<ZonedDevice> device;
  Status status = OpenPlace(place, &device);
  if (!status.ok()) return status;
  std::vector<Violation> violations;
  status = Check(device.get(), &violations);
  std::string text;
  for (const Violation& violation : violations) {
    text.append("; invariant ")
        .append(std::to_string(violation.invariant))
        .append(": ")
        .append(violation.what);
  }
  if (!text.empty()) return Status::Corruption(std::string("fsck ") + when, text.substr(2));
  return status;
}

}  // namespace

void CountCollected(const std::string& aux, Progress* progress) {
  std::ifstream ledger(aux + "/ledger.jsonl");
  std::string line;
  std::string last;
  while (std::getline(ledger, line)) last = line;
  const auto entry = nlohmann::json::parse(last, nullptr, false);
  if (entry.is_object()) {
    progress->collected += entry["written"]["gc"]["payload"].get<std::uint64_t>();
  }
}

IOStatus OpenPlace(const Place& place, std::unique_ptr<ZonedDevice>* device) {
  RETURN_IF_ERROR(OpenDevice(place.device, Access::kReadWrite, nullptr, device));
  if (!place.identity.empty()) {
    *device = std::make_unique<TappedDevice>(std::move(*device), place.identity);
  }
  return IOStatus::OK();
}

IOStatus Format(const Place& place, const Policy& policy) {
  std::unique_ptr<ZonedDevice> device;
  const IOStatus status = OpenPlace(place, &device);
  return status.ok() ? Mkfs(device.get(), policy, "") : status;
}

TappedDevice::Tap Counting(Progress* progress) {
  return [progress](ZonedDevice* inner, const Command& command) {
    switch (command.kind) {
      case CommandKind::kWrite:
        ++progress->writes;
        break;
      case CommandKind::kFlush:
        ++progress->flushes;
        break;
      case CommandKind::kFinish:
        ++progress->finishes;
        break;
      case CommandKind::kReset:
        ++progress->resets;
        break;
      default:
        break;
    }
    return Execute(inner, command);
  };
}

Status RunLoad(std::unique_ptr<ZonedDevice> device, const std::string& aux, const LoadShape& shape,
               std::uint64_t operations, TappedDevice::Tap tap, Progress* progress) {
  std::unique_ptr<rocksdb::FileSystem> mounted;
  Status status = OpenFileSystem(std::make_unique<TappedDevice>(std::move(device), std::move(tap)),
                                 MountOptionsOf(aux), &mounted);
  if (!status.ok()) return status;
  const std::shared_ptr<rocksdb::FileSystem> file_system = std::move(mounted);
  std::unique_ptr<Database> database;
  status = Database::Open(file_system, shape, &database);
  if (!status.ok()) return status;
  std::array<std::uint64_t, kMaxWriters> synced;
  std::copy(progress->synced.begin(), progress->synced.end(), synced.begin());
  status = database->Verify(synced);
  if (!status.ok() || operations == 0) return status;
  return database->Run(operations, progress);
}

Status Judge(const Place& place, const LoadShape& shape, const Judgement& judgement,
             Progress* progress) {
  Status status = CheckInvariants(place, "after the crash");
  for (int mount = 0; status.ok() && mount < (judgement.twice ? 2 : 1); ++mount) {
    std::unique_ptr<ZonedDevice> device;
    status = OpenPlace(place, &device);
    if (!status.ok()) return status;
    const std::uint64_t operations = mount == 0 ? judgement.operations : 0;
    status = RunLoad(std::move(device), place.aux, shape, operations, Counting(progress), progress);
    if (!status.ok()) return status;
    CountCollected(place.aux, progress);
    status = CheckInvariants(place, "after recovery and a clean end");
  }
  return status;
}

}  // namespace zlfs::crash
