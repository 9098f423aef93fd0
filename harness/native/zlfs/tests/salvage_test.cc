// What salvage copied survives a loss of power.

#include "zlfs/fs/salvage.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "zlfs/tests/emulated_faults.h"
#include "zlfs/tests/volume_rig.h"

namespace {

// What a loss of power would leave.
struct Durable {
  std::map<ino_t, std::uintmax_t> sizes;  // of files
  std::set<std::filesystem::path> names;
};
Durable* durable = nullptr;  // null: nothing is recorded

}  // namespace

// Replaces the function of the C library.
extern "C" int fsync(int fd) {
  struct stat info = {};
  if (durable != nullptr && fstat(fd, &info) == 0) {
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
    if (S_ISDIR(info.st_mode)) {
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        durable->names.insert(entry.path());
      }
    } else {
      durable->sizes[info.st_ino] = static_cast<std::uintmax_t>(info.st_size);
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace zlfs {
namespace {

TEST(Salvage, CopiesAreDurable) {
  Rig rig;
  {
    const auto volume = rig.Mount();
    ASSERT_OK(Put(volume.get(), "/db/a", Content(1, 0, 200000)));
    ASSERT_OK(Put(volume.get(), "/db/b", Content(2, 0, 5000)));
    const std::uint32_t zone = volume->files().All()[0].extents[0].zone;
    ASSERT_OK(volume->Close());
    EmulatedFaults::BreakZone(*rig.device, zone, ZoneCondition::kOffline);
  }
  const auto volume = rig.Mount({.read_only = true});
  const TemporaryFolder temporary;
  const auto root = std::filesystem::canonical(temporary / "");
  Durable left;
  std::vector<Salvaged> files;
  durable = &left;
  const IOStatus status = Salvage(volume.get(), root / "deep/saved", &files);
  durable = nullptr;
  ASSERT_OK(status);
  ASSERT_EQ(files.size(), 2U);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    EXPECT_TRUE(left.names.contains(entry.path())) << entry.path();
    if (!entry.is_regular_file()) continue;
    found.insert(entry.path().filename());
    struct stat info = {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(left.sizes[info.st_ino], entry.file_size()) << entry.path();
  }
  EXPECT_EQ(found, (std::set<std::string>{"a.damaged", "b"}));
}

}  // namespace
}  // namespace zlfs
