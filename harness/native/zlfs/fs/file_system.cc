#include "zlfs/fs/file_system.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "zlfs/fs/handles.h"
#include "zlfs/fs/volume.h"

namespace zlfs {

IOStatus MakePath(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? IOStatus::IOError(path, error.message()) : IOStatus::OK();
}

namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;

constexpr std::size_t kCompactionReadahead = 2 << 20;

constexpr const char* kAuxRoot = "/var/lib/zlfs";
constexpr std::uint64_t kMostLedgerSeconds = 3600;
constexpr std::string_view kReads[] = {"compaction", "all", "none"};  // as TracedReads

std::string Parent(const std::string& name) { return name.substr(0, name.rfind('/')); }

// Returns whether the file belongs in the auxiliary directory. The lock file needs a lock of the
// operating system. Info logs do not have to survive a power loss.
bool IsAuxiliary(const std::string& name) {
  const std::string base = name.substr(name.rfind('/') + 1);
  return base == "LOCK" || base == "LOG" || base.starts_with("LOG.old") || base.ends_with("_LOG") ||
         base.find("_LOG.old.") != std::string::npos;
}

// Methods that are not overridden are unsupported or use the implementation of the base class.
// RocksDB does not need to reopen a file for writing.
class ZonedFileSystem final : public FileSystem {
 public:
  ZonedFileSystem(std::unique_ptr<Volume> volume, std::string aux)
      : volume_(std::move(volume)), aux_(std::move(aux)) {}

  const char* Name() const override { return "zlfs"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return host_->NewSequentialFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume_->files().Open(name, &file));
    *result = std::make_unique<SequentialFile>(volume_.get(), std::move(file));
    return IOStatus::OK();
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return host_->NewRandomAccessFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume_->files().Open(name, &file));
    *result = std::make_unique<RandomAccessFile>(volume_.get(), std::move(file));
    return IOStatus::OK();
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return host_->NewWritableFile(aux_ + name, options, result, debug);
    std::shared_ptr<File> file;
    // WALs use kind kLog: their content is written in pieces.
    const FileKind kind = name.ends_with(".log") ? FileKind::kLog : FileKind::kData;
    RETURN_IF_ERROR(volume_->files().Create(name, kind, &file));
    *result = std::make_unique<WritableFile>(volume_.get(), std::move(file), name, options);
    return IOStatus::OK();
  }

  // There is no page cache that reads ahead for compactions, so RocksDB must.
  FileOptions OptimizeForCompactionTableRead(
      const FileOptions& options, const rocksdb::ImmutableDBOptions& database) const override {
    FileOptions optimized = FileSystem::OptimizeForCompactionTableRead(options, database);
    optimized.compaction_readahead_size =
        std::max(optimized.compaction_readahead_size, kCompactionReadahead);
    return optimized;
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext* debug) override {
    RETURN_IF_ERROR(host_->FileExists(aux_ + Canonical(path), options, debug));
    *result = std::make_unique<Directory>(volume_.get());
    return IOStatus::OK();
  }

  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (volume_->files().Exists(name)) return IOStatus::OK();
    return host_->FileExists(aux_ + name, options, debug);
  }

  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* result, IODebugContext* debug) override {
    const std::string name = Canonical(path);
    RETURN_IF_ERROR(host_->GetChildren(aux_ + name, options, result, debug));
    for (std::string& child : volume_->files().List(name)) result->push_back(std::move(child));
    return IOStatus::OK();
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (IsAuxiliary(name)) return host_->DeleteFile(aux_ + name, options, debug);
    return volume_->files().Delete(name);
  }

  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    const std::string name = Canonical(path);
    RETURN_IF_ERROR(MakePath(aux_ + Parent(name)));
    return host_->CreateDir(aux_ + name, options, debug);
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    return MakePath(aux_ + Canonical(path));
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* debug) override {
    const std::string name = Canonical(path);
    if (volume_->files().HasFilesBelow(name))
      return IOStatus::IOError("directory is not empty", name);
    return host_->DeleteDir(aux_ + name, options, debug);
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions& options, std::uint64_t* size,
                       IODebugContext* debug) override {
    const std::string name = Canonical(path);
    std::shared_ptr<File> file;
    if (!volume_->files().Open(name, &file).ok()) {
      return host_->GetFileSize(aux_ + name, options, size, debug);
    }
    *size = volume_->reader().Size(file.get());
    return IOStatus::OK();
  }

  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options,
                                   std::uint64_t* modified, IODebugContext* debug) override {
    const std::string name = Canonical(path);
    std::shared_ptr<File> file;
    if (!volume_->files().Open(name, &file).ok()) {
      return host_->GetFileModificationTime(aux_ + name, options, modified, debug);
    }
    *modified = file->modified;
    return IOStatus::OK();
  }

  IOStatus RenameFile(const std::string& path, const std::string& to_path, const IOOptions& options,
                      IODebugContext* debug) override {
    const std::string from = Canonical(path);
    const std::string to = Canonical(to_path);
    if (volume_->files().Exists(from)) {
      if (!IsAuxiliary(to)) return volume_->files().Rename(from, to);
      return IOStatus::NotSupported("rename", from + " cannot become " + to);
    }
    const std::lock_guard lock(renaming_);
    RETURN_IF_ERROR(MakePath(aux_ + Parent(to)));
    bool directory = false;
    host_->IsDirectory(aux_ + from, options, &directory, debug).PermitUncheckedError();
    if (!directory && !IsAuxiliary(to)) return IOStatus::PathNotFound("no such file", from);
    if (directory && volume_->read_only() && volume_->files().HasFilesBelow(from)) {
      return IOStatus::NotSupported("read-only", from);
    }
    if (directory && volume_->files().HasFilesBelow(to)) {
      return IOStatus::IOError("directory is not empty", to);
    }
    RETURN_IF_ERROR(host_->RenameFile(aux_ + from, aux_ + to, options, debug));
    return directory ? volume_->files().RenameDirectory(from, to) : IOStatus::OK();
  }

  // Checkpoints and ingestion link tables instead of copying them.
  IOStatus LinkFile(const std::string& path, const std::string& link_path, const IOOptions&,
                    IODebugContext*) override {
    const std::string name = Canonical(path);
    const std::string link = Canonical(link_path);
    if (IsAuxiliary(name) || IsAuxiliary(link)) return IOStatus::NotSupported("link", link);
    return volume_->files().Link(name, link);
  }
  IOStatus NumFileLinks(const std::string& path, const IOOptions&, std::uint64_t* count,
                        IODebugContext*) override {
    return volume_->files().CountNames(Canonical(path), count);
  }
  IOStatus AreFilesSame(const std::string& first, const std::string& second, const IOOptions&,
                        bool* same, IODebugContext*) override {
    return volume_->files().AreOne(Canonical(first), Canonical(second), same);
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* debug) override {
    return host_->LockFile(aux_ + Canonical(path), options, lock, debug);
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions& options,
                      IODebugContext* debug) override {
    return host_->UnlockFile(lock, options, debug);
  }

  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
    *path = "/test";
    return MakePath(aux_ + *path);
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    *absolute = Canonical(path);
    return IOStatus::OK();
  }

  IOStatus GetFreeSpace(const std::string&, const IOOptions&, std::uint64_t* free,
                        IODebugContext*) override {
    const SpaceUse use = volume_->Space();
    *free = use.free + use.garbage;
    return IOStatus::OK();
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* directory,
                       IODebugContext* debug) override {
    const std::string name = Canonical(path);
    *directory = false;
    if (volume_->files().Exists(name)) return IOStatus::OK();
    return host_->IsDirectory(aux_ + name, options, directory, debug);
  }

  // The handles come from RandomAccessFile::ReadAsync. Poll waits for all of them.
  IOStatus Poll(std::vector<void*>& handles, std::size_t /*min_completions*/) override {
    for (void* const handle : handles) static_cast<AsyncRead*>(handle)->Await();
    return IOStatus::OK();
  }
  IOStatus AbortIO(std::vector<void*>& handles) override {
    for (void* const handle : handles) static_cast<AsyncRead*>(handle)->Abort();
    return IOStatus::OK();
  }
#if ZLFS_ROCKSDB_AT_LEAST(8, 3)
  void SupportedOps(int64_t& operations) override {
    const bool async = volume_->reader().pool() != nullptr;
    operations = async ? std::int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO : 0;
  }
#endif

 private:
  const std::unique_ptr<Volume> volume_;
  const std::string aux_;                                           // auxiliary directory
  const std::shared_ptr<FileSystem> host_ = FileSystem::Default();  // for the auxiliary directory
  // Held from the check that a target directory is empty to its replacement: meanwhile no other
  // rename may fill it.
  std::mutex renaming_;
};

}  // namespace

IOStatus OpenFileSystem(const std::string& uri, std::unique_ptr<FileSystem>* file_system) {
  OptionMap options;
  std::unique_ptr<ZonedDevice> device;
  RETURN_IF_ERROR(OpenDevice(uri, Access::kReadWrite, &options, &device));
  return OpenFileSystem(std::move(device), std::move(options), file_system);
}

IOStatus OpenFileSystem(std::unique_ptr<ZonedDevice> device, OptionMap uri_options,
                        std::unique_ptr<FileSystem>* file_system) {
  const auto take = [&uri_options](const char* name, const std::string& otherwise) {
    const auto option = uri_options.extract(name);
    return option.empty() ? otherwise : option.mapped();
  };
  MountOptions options;
  std::string aux = take("aux", "");
  if (aux.empty()) {
    std::string identity = device->geometry().identity;
    std::replace(identity.begin(), identity.end(), '/', '_');
    aux = std::string(kAuxRoot) + "/" + identity;
  }
  options.ledger_path = take("ledger", aux + "/ledger.jsonl");
  const std::string seconds = take("ledger_seconds", "1");
  const auto interval = OptionValue(seconds, {});
  if (!interval || *interval < 1 || *interval > kMostLedgerSeconds) {
    return IOStatus::InvalidArgument(
        "bad-option",
        "ledger_seconds=" + seconds + ", allowed: 1 to " + std::to_string(kMostLedgerSeconds));
  }
  options.ledger_interval = std::chrono::seconds(*interval);
  options.trace_path = take("trace", "");
  options.tails_path = aux + "/tails";
  const std::string reads = take("trace_reads", "compaction");
  const auto* const word = std::find(std::begin(kReads), std::end(kReads), reads);
  if (word == std::end(kReads)) {
    return IOStatus::InvalidArgument("bad-option",
                                     "trace_reads=" + reads + ": compaction, all or none");
  }
  options.trace_reads = static_cast<TracedReads>(word - std::begin(kReads));
  options.policy = std::move(uri_options);
  if (device->geometry().kind != DeviceKind::kKernel) {
    // Mkfs fails if the device is not blank. Ignore the error: Mount reports an unusable device.
    Mkfs(device.get(), {}, "").PermitUncheckedError();
  }
  RETURN_IF_ERROR(MakePath(aux));
  std::unique_ptr<Volume> volume;
  RETURN_IF_ERROR(Volume::Mount(std::move(device), options, &volume));
  // Directories exist only in the auxiliary directory. It may be new, or incomplete after a crash,
  // so create the parents of all files.
  for (const FileInfo& file : volume->files().All())
    RETURN_IF_ERROR(MakePath(aux + Parent(file.name)));
  *file_system = std::make_unique<ZonedFileSystem>(std::move(volume), std::move(aux));
  return IOStatus::OK();
}

}  // namespace zlfs
