// What salvage copied survives a loss of power.

#include "zlfs/fs/salvage.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
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

TEST(Salvage, AFailureLeavesNoIncompleteFile) {
  Rig rig;
  const auto volume = rig.Mount();
  ASSERT_OK(Put(volume.get(), "/a", Content(1, 0, 5000)));
  ASSERT_OK(Put(volume.get(), "/b", Content(2, 0, 200000)));
  const TemporaryFolder temporary;
  std::vector<Salvaged> files;
  struct rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit small = {.rlim_cur = 100000, .rlim_max = limit.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const IOStatus status = Salvage(volume.get(), temporary / "saved", &files);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, handler);
  EXPECT_ERROR(status, "destination");
  EXPECT_NE(status.ToString().find("saved/b"), std::string::npos) << status.ToString();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "/a");
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(temporary / "saved")) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{"a"}));
}

}  // namespace
}  // namespace zlfs
