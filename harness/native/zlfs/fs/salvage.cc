#include "zlfs/fs/salvage.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace zlfs {
namespace {

constexpr std::size_t kPart = 1 << 20;
constexpr const char* kDamaged = ".damaged";
constexpr const char* kPartial = ".partial";

namespace fs = std::filesystem;
using Output = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

IOStatus Failed(const fs::path& path, const std::string& why = std::strerror(errno)) {
  return IOStatus::IOError("destination", path.string() + ": " + why);
}

IOStatus Exists(const fs::path& path) { return IOStatus::InvalidArgument("exists", path.string()); }

// Makes the names in the folder durable.
IOStatus SyncFolder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(folder);
  // Some file systems cannot sync folders.
  const IOStatus status = fsync(fd) == 0 || errno == EINVAL ? IOStatus::OK() : Failed(folder);
  close(fd);
  return status;
}

// Makes the folder and its missing parents, and makes their names durable.
IOStatus MakeFolder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return IOStatus::OK();
  RETURN_IF_ERROR(MakeFolder(folder.parent_path()));
  fs::create_directory(folder, error);
  if (error) return Failed(folder, error.message());
  return SyncFolder(folder.parent_path());
}

// Closes the file. Its content is then durable.
IOStatus CloseDurably(Output output, const fs::path& path) {
  const bool synced = std::fflush(output.get()) == 0 && fsync(fileno(output.get())) == 0;
  if (!synced) return Failed(path);
  return std::fclose(output.release()) == 0 ? IOStatus::OK() : Failed(path);
}

struct Loss {
  std::uint64_t from;
  std::uint64_t to;
  IOStatus why;
};

// Reads a part. Fills blocks that cannot be read with zeros, and adds their ranges to `losses`.
void ReadPart(Volume* volume, File* file, std::uint64_t offset, std::size_t size, char* to,
              std::vector<Loss>* losses) {
  Slice read;
  if (volume->reader().Read(file, offset, size, &read, to).ok() && read.size() == size) return;
  const std::size_t block = volume->device()->geometry().block_size;
  for (std::size_t done = 0; done < size; done += block) {
    const std::size_t n = std::min(block, size - done);
    const std::uint64_t at = offset + done;
    const IOStatus status = volume->reader().Read(file, at, n, &read, to + done);
    if (status.ok()) continue;
    // A range can begin in an earlier part.
    if (losses->empty() || losses->back().to != at) losses->push_back({at, at, status});
    losses->back().to += n;
    losses->back().why = status;
    std::memset(to + done, 0, n);
  }
}

IOStatus CopyOut(Volume* volume, File* file, Output output, const fs::path& path,
                 Salvaged* salvaged) {
  std::vector<char> buffer(kPart);
  std::vector<Loss> losses;
  for (std::uint64_t at = 0; at < salvaged->size; at += kPart) {
    const std::size_t n = std::min<std::uint64_t>(kPart, salvaged->size - at);
    ReadPart(volume, file, at, n, buffer.data(), &losses);
    if (std::fwrite(buffer.data(), 1, n, output.get()) != n) return Failed(path);
  }
  for (const Loss& loss : losses) {
    salvaged->losses.push_back("bytes " + std::to_string(loss.from) + " to " +
                               std::to_string(loss.to) + ": " + loss.why.ToString());
  }
  // The end of a WAL can lie in a zone that cannot be read.
  Slice read;
  const IOStatus end = volume->reader().Read(file, salvaged->size, 1, &read, buffer.data());
  if (!end.ok()) salvaged->losses.push_back(end.ToString());
  return CloseDurably(std::move(output), path);
}

// Renames a file, but replaces no other.
IOStatus RenameToNew(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return IOStatus::OK();
  }
  if (errno == EEXIST) return Exists(to);
  // Some file systems always replace.
  if (errno != EINVAL || std::rename(from.c_str(), to.c_str()) != 0) return Failed(to);
  return IOStatus::OK();
}

// Copies the file to `path`. The copy is durable, and has its final name.
IOStatus SalvageFile(Volume* volume, File* file, const fs::path& path, Salvaged* salvaged) {
  const fs::path damaged = path.string() + kDamaged;
  const fs::path partial = path.string() + kPartial;
  std::error_code error;
  for (const fs::path& name : {path, damaged, partial}) {
    if (fs::exists(fs::symlink_status(name, error))) return Exists(name);
  }
  RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  Output output(std::fopen(partial.c_str(), "wbxe"), std::fclose);
  // Another salvage can have made it. Then it stays.
  if (output == nullptr) return errno == EEXIST ? Exists(partial) : Failed(partial);
  IOStatus status = CopyOut(volume, file, std::move(output), partial, salvaged);
  if (status.ok()) status = RenameToNew(partial, salvaged->losses.empty() ? path : damaged);
  if (status.ok()) return SyncFolder(path.parent_path());
  fs::remove(partial, error);
  return status;
}

}  // namespace

IOStatus Salvage(Volume* volume, const std::string& folder, std::vector<Salvaged>* files) {
  const fs::path root = fs::absolute(folder);
  RETURN_IF_ERROR(MakeFolder(root));
  for (const FileInfo& info : volume->files().All()) {
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume->files().Open(info.name, &file));
    Salvaged salvaged{.name = info.name, .size = volume->reader().Size(file.get())};
    RETURN_IF_ERROR(SalvageFile(volume, file.get(), root.string() + info.name, &salvaged));
    files->push_back(std::move(salvaged));
  }
  return IOStatus::OK();
}

}  // namespace zlfs
