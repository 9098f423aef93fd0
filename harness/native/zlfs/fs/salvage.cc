#include "zlfs/fs/salvage.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "zlfs/fs/file_system.h"

namespace zlfs {
namespace {

constexpr std::size_t kPart = 1 << 20;
constexpr const char* kDamaged = ".damaged";

using Output = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Reads a part. Fills blocks that cannot be read with zeros, and adds their ranges to `losses`.
void ReadPart(Volume* volume, File* file, std::uint64_t offset, std::size_t size, char* to,
              std::vector<std::string>* losses) {
  Slice read;
  if (volume->reader().Read(file, offset, size, &read, to).ok() && read.size() == size) return;
  const std::size_t block = volume->device()->geometry().block_size;
  std::uint64_t lost = 0;
  IOStatus why;
  const auto end_of_loss = [&](std::uint64_t at) {
    if (lost == 0) return;
    losses->push_back("bytes " + std::to_string(at - lost) + " to " + std::to_string(at) + ": " +
                      why.ToString());
    lost = 0;
  };
  for (std::size_t done = 0; done < size; done += block) {
    const std::size_t n = std::min(block, size - done);
    const IOStatus status = volume->reader().Read(file, offset + done, n, &read, to + done);
    if (status.ok()) {
      end_of_loss(offset + done);
    } else {
      why = status;
      lost += n;
      std::memset(to + done, 0, n);
    }
  }
  end_of_loss(offset + size);
}

IOStatus CopyOut(Volume* volume, File* file, const std::string& path, Salvaged* salvaged) {
  const Output output(std::fopen(path.c_str(), "wbxe"), std::fclose);
  if (output == nullptr) {
    return errno == EEXIST ? IOStatus::InvalidArgument("exists", path)
                           : IOStatus::IOError(path, std::strerror(errno));
  }
  std::vector<char> buffer(kPart);
  for (std::uint64_t at = 0; at < salvaged->size; at += kPart) {
    const std::size_t n = std::min<std::uint64_t>(kPart, salvaged->size - at);
    ReadPart(volume, file, at, n, buffer.data(), &salvaged->losses);
    if (std::fwrite(buffer.data(), 1, n, output.get()) != n) {
      return IOStatus::IOError(path, std::strerror(errno));
    }
  }
  // The end of a WAL can lie in a zone that cannot be read.
  Slice read;
  const IOStatus end = volume->reader().Read(file, salvaged->size, 1, &read, buffer.data());
  if (!end.ok()) salvaged->losses.push_back(end.ToString());
  if (std::fflush(output.get()) != 0) return IOStatus::IOError(path, std::strerror(errno));
  return IOStatus::OK();
}

}  // namespace

IOStatus Salvage(Volume* volume, const std::string& folder, std::vector<Salvaged>* files) {
  for (const FileInfo& info : volume->files().All()) {
    std::shared_ptr<File> file;
    RETURN_IF_ERROR(volume->files().Open(info.name, &file));
    Salvaged salvaged{.name = info.name, .size = volume->reader().Size(file.get())};
    const std::filesystem::path path = folder + info.name;
    RETURN_IF_ERROR(MakePath(path.parent_path()));
    RETURN_IF_ERROR(CopyOut(volume, file.get(), path, &salvaged));
    if (!salvaged.losses.empty()) {
      std::error_code error;
      std::filesystem::rename(path, path.string() + kDamaged, error);
      if (error) return IOStatus::IOError(path.string(), error.message());
    }
    files->push_back(std::move(salvaged));
  }
  return IOStatus::OK();
}

}  // namespace zlfs
