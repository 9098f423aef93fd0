#include "zlfs/fs/file_system.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "zlfs/fs/compat.h"
#include "zlfs/fs/handles.h"
#include "zlfs/fs/options.h"
#include "zlfs/fs/volume.h"
#include "zlfs/zoned/open.h"

namespace zlfs {
namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;

constexpr const char* kAuxRoot = "/var/lib/zlfs";

// "/a//b/" and "a/b" are both "/a/b".
std::string Canonical(const std::string& path) {
  std::string name = std::filesystem::path("/" + path).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  while (name.starts_with("//")) name.erase(0, 1);
  return name;
}

std::string Base(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// Files that live in the auxiliary directory: the lock, which has to be one of the operating
// system's, and info logs, which nobody needs to survive a loss of power.
bool IsAuxiliary(const std::string& name) {
  const std::string base = Base(name);
  return base == "LOCK" || base == "LOG" || base.starts_with("LOG.old") || base.ends_with("_LOG") ||
         base.find("_LOG.old.") != std::string::npos;
}

class Directory final : public rocksdb::FSDirectory {
 public:
  explicit Directory(Volume* volume) : volume_(volume) {}
  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return volume_->SyncNames();
  }
  IOStatus Close(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }

 private:
  Volume* const volume_;
};

class ZonedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  ZonedFileSystem(std::unique_ptr<Volume> volume, std::string aux)
      : FileSystemWrapper(FileSystem::Default()),
        volume_(std::move(volume)),
        aux_(std::move(aux)) {}

  static const char* kClassName() { return "zlfs"; }
  const char* Name() const override { return kClassName(); }

  // Directories live in the auxiliary directory. It may be a new one, or a crash may have separated
  // it from the names.
  IOStatus MakeDirectories() {
    for (const FileInfo& file : volume_->Files()) {
      const std::string parent = file.name.substr(0, file.name.rfind('/'));
      if (IOStatus status = MakePath(aux_ + parent); !status.ok()) return status;
    }
    return MakePath(aux_);
  }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return target()->NewSequentialFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    IOStatus status = volume_->Open(name, &file);
    if (status.ok()) *result = std::make_unique<SequentialFile>(volume_.get(), std::move(file));
    return status;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) {
      return target()->NewRandomAccessFile(aux_ + name, options, result, debug);
    }
    std::shared_ptr<File> file;
    IOStatus status = volume_->Open(name, &file);
    if (status.ok()) *result = std::make_unique<RandomAccessFile>(volume_.get(), std::move(file));
    return status;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return target()->NewWritableFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    IOStatus status = volume_->Create(name, KindOf(name), &file);
    if (status.ok()) {
      *result = std::make_unique<WritableFile>(volume_.get(), std::move(file), name, options);
    }
    return status;
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return target()->ReopenWritableFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    if (!volume_->Open(name, &file).ok()) return NewWritableFile(path, options, result, debug);
    *result = std::make_unique<WritableFile>(volume_.get(), std::move(file), name, options);
    return IOStatus::OK();
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             IODebugContext* debug) override {
    // Zones cannot be overwritten: the file gets the new name and begins anew.
    IOStatus status = RenameFile(old_path, path, options.io_options, debug);
    return status.ok() ? NewWritableFile(path, options, result, debug) : status;
  }

  IOStatus NewRandomRWFile(const std::string& /*path*/, const FileOptions& /*options*/,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* /*result*/,
                           IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("random writes", "zones are append-only");
  }

  IOStatus NewMemoryMappedFileBuffer(
      const std::string& /*path*/,
      std::unique_ptr<rocksdb::MemoryMappedFileBuffer>* /*result*/) override {
    return IOStatus::NotSupported("memory-mapped files");
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* debug) override {
    const IOStatus status = target()->FileExists(aux_ + Canonical(path), options, debug);
    if (status.ok()) *result = std::make_unique<Directory>(volume_.get());
    return status;
  }

  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (volume_->Exists(name)) return IOStatus::OK();
    return target()->FileExists(aux_ + name, options, debug);
  }

  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* result, IODebugContext* debug) override {
    const std::string name = Canonical(path);
    const IOStatus status = target()->GetChildren(aux_ + name, options, result, debug);
    if (!status.ok()) return status;
    for (std::string& child : volume_->List(name)) result->push_back(std::move(child));
    return status;
  }

  IOStatus GetChildrenFileAttributes(const std::string& path, const IOOptions& options,
                                     std::vector<rocksdb::FileAttributes>* result,
                                     IODebugContext* debug) override {
    return FileSystem::GetChildrenFileAttributes(path, options, result, debug);
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return target()->DeleteFile(aux_ + name, options, debug);
    return volume_->Delete(name);
  }

  IOStatus Truncate(const std::string& path, std::size_t size, const IOOptions& options,
                    IODebugContext* debug) override {
    std::uint64_t now = 0;
    if (IOStatus status = GetFileSize(path, options, &now, debug); !status.ok()) return status;
    if (now == size) return IOStatus::OK();
    return IOStatus::NotSupported("truncate", "zones are append-only");
  }

  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    const std::string name = Canonical(path);
    const IOStatus status = MakePath(aux_ + name.substr(0, name.rfind('/')));
    return status.ok() ? target()->CreateDir(aux_ + name, options, debug) : status;
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& /*options*/,
                              IODebugContext* /*debug*/) override {
    return MakePath(aux_ + Canonical(path));
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (volume_->HasFilesBelow(name)) return IOStatus::IOError("directory is not empty", name);
    return target()->DeleteDir(aux_ + name, options, debug);
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions& options, std::uint64_t* size,
                       IODebugContext* debug) override {
    const std::string name = Canonical(path);
    std::uint64_t modified = 0;
    const IOStatus status = volume_->Stat(name, size, &modified);
    return status.ok() ? status : target()->GetFileSize(aux_ + name, options, size, debug);
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options,
                                   std::uint64_t* modified, IODebugContext* debug) override {
    const std::string name = Canonical(path);
    std::uint64_t size = 0;
    const IOStatus status = volume_->Stat(name, &size, modified);
    if (status.ok()) return status;
    return target()->GetFileModificationTime(aux_ + name, options, modified, debug);
  }

  IOStatus RenameFile(const std::string& path, const std::string& to_path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string from = Canonical(path);
    const std::string to = Canonical(to_path);
    if (volume_->Exists(from)) {
      if (!IsAuxiliary(to)) return volume_->Rename(from, to);
      return IOStatus::NotSupported("rename", from + " cannot become " + to);
    }
    if (IOStatus status = MakePath(aux_ + to.substr(0, to.rfind('/'))); !status.ok()) return status;
    bool directory = false;
    target()->IsDirectory(aux_ + from, options, &directory, debug).PermitUncheckedError();
    if (!directory && !IsAuxiliary(to)) {
      return IOStatus::PathNotFound("no such file", from);
    }
    if (directory && volume_->HasFilesBelow(to)) {
      return IOStatus::IOError("directory is not empty", to);
    }
    const IOStatus status = target()->RenameFile(aux_ + from, aux_ + to, options, debug);
    if (status.ok() && directory) volume_->RenameDirectory(from, to);
    return status;
  }

  // RocksDB copies instead.
  IOStatus LinkFile(const std::string& /*source*/, const std::string& /*to*/,
                    const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("hard links");
  }
  IOStatus NumFileLinks(const std::string& /*path*/, const IOOptions& /*options*/,
                        std::uint64_t* /*count*/, IODebugContext* /*debug*/) override {
    return IOStatus::NotSupported("hard links");
  }
  IOStatus AreFilesSame(const std::string& first, const std::string& second,
                        const IOOptions& /*options*/, bool* same,
                        IODebugContext* /*debug*/) override {
    *same = Canonical(first) == Canonical(second);
    return IOStatus::OK();
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* debug) override {
    return target()->LockFile(aux_ + Canonical(path), options, lock, debug);
  }

  IOStatus GetTestDirectory(const IOOptions& options, std::string* path,
                            IODebugContext* debug) override {
    *path = "/test";
    return CreateDirIfMissing(*path, options, debug);
  }

  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* result, IODebugContext* debug) override {
    return target()->NewLogger(aux_ + Canonical(path), options, result, debug);
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions& /*options*/,
                           std::string* absolute, IODebugContext* /*debug*/) override {
    *absolute = Canonical(path);
    return IOStatus::OK();
  }

  IOStatus GetFreeSpace(const std::string& /*path*/, const IOOptions& /*options*/,
                        std::uint64_t* free, IODebugContext* /*debug*/) override {
    const SpaceUse use = volume_->Space();
    *free = use.free + use.garbage;
    return IOStatus::OK();
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* directory,
                       IODebugContext* debug) override {
    const std::string name = Canonical(path);
    *directory = false;
    if (volume_->Exists(name)) return IOStatus::OK();
    return target()->IsDirectory(aux_ + name, options, directory, debug);
  }

  // Reads are done when they return; there is nothing to wait for.
  IOStatus Poll(std::vector<void*>& /*handles*/, std::size_t /*least*/) override {
    return IOStatus::OK();
  }
  IOStatus AbortIO(std::vector<void*>& /*handles*/) override { return IOStatus::OK(); }
#if ZLFS_ROCKSDB_AT_LEAST(8, 3)
  void SupportedOps(int64_t& operations) override { operations = 0; }
#endif

 private:
  static IOStatus MakePath(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? IOStatus::IOError(path, error.message()) : IOStatus::OK();
  }

  const std::unique_ptr<Volume> volume_;
  const std::string aux_;  // names are appended
};

IOStatus FormatIfBlank(ZonedDevice* device, OptionMap policy_options) {
  std::vector<ZoneInfo> zones;
  IOStatus status = device->Report(0, device->geometry().zone_count, &zones);
  if (!status.ok()) return status;
  for (const ZoneInfo& zone : zones) {
    if (zone.condition != ZoneCondition::kEmpty) return IOStatus::OK();
  }
  Policy policy;
  status = TakePolicy(&policy_options, &policy);
  if (status.ok()) status = NothingLeft(policy_options);
  return status.ok() ? Mkfs(device, policy, "") : status;
}

IOStatus MountFileSystem(std::unique_ptr<ZonedDevice> device, OptionMap uri_options, bool read_only,
                         std::unique_ptr<FileSystem>* file_system) {
  MountOptions options;
  options.read_only = read_only;
  std::string aux = TakeOption(&uri_options, "aux", "");
  const bool has_ledger = uri_options.contains("ledger");
  options.ledger_path = TakeOption(&uri_options, "ledger", "");
  options.policy = std::move(uri_options);
  if (device->geometry().kind != DeviceKind::kKernel && !read_only) {
    const IOStatus status = FormatIfBlank(device.get(), options.policy);
    if (!status.ok()) return status;
  }
  if (aux.empty()) {
    std::string identity = device->geometry().identity;
    std::replace(identity.begin(), identity.end(), '/', '_');
    aux = std::string(kAuxRoot) + "/" + identity;
  }
  std::error_code error;
  std::filesystem::create_directories(aux, error);
  if (error) return IOStatus::IOError(aux, error.message());
  if (!has_ledger) options.ledger_path = aux + "/ledger.jsonl";
  std::unique_ptr<Volume> volume;
  IOStatus status = Volume::Mount(std::move(device), options, &volume);
  if (!status.ok()) return status;
  auto result = std::make_unique<ZonedFileSystem>(std::move(volume), std::move(aux));
  status = result->MakeDirectories();
  if (status.ok()) *file_system = std::move(result);
  return status;
}

}  // namespace

IOStatus OpenFileSystem(const std::string& uri, std::unique_ptr<FileSystem>* file_system) {
  DeviceSpec spec;
  IOStatus status = ParseSpec(uri, &spec);
  if (!status.ok()) return status;
  const bool read_only = TakeOption(&spec.options, "readonly", "0") == "1";
  std::unique_ptr<ZonedDevice> device;
  status = OpenDevice(&spec, read_only ? Access::kReadOnly : Access::kReadWrite, &device);
  if (!status.ok()) return status;
  return MountFileSystem(std::move(device), std::move(spec.options), read_only, file_system);
}

IOStatus OpenFileSystem(std::unique_ptr<ZonedDevice> device, OptionMap options,
                        std::unique_ptr<FileSystem>* file_system) {
  return MountFileSystem(std::move(device), std::move(options), false, file_system);
}

}  // namespace zlfs
