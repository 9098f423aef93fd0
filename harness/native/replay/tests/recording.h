// Loads of several threads on an emulated device, recorded.

#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "replay/trace.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs::replay {
using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::IOOptions;

inline constexpr const char* kShape = "zones=48&zone_size=256K&zone_capacity=192K&max_active=14";
inline constexpr int kWriters = 3;
inline constexpr int kFilesEach = 300;
// Live files per writer: two thirds of the device, and less than half of it. A replay at another
// setting keeps the recorded order of its writers, so it may find no space on a full device.
inline constexpr std::size_t kKept = 30;
inline constexpr std::size_t kKeptWithRoom = 20;
inline constexpr std::size_t kMaxFile = 128 << 10;

inline void WriteFile(FileSystem* fs, const std::string& name, std::size_t size,
                      std::mt19937_64* random) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_OK(fs->NewWritableFile(name, FileOptions(), &file, nullptr));
  file->SetWriteLifeTimeHint(static_cast<rocksdb::Env::WriteLifeTimeHint>(2 + (*random)() % 3));
  file->SetIOPriority((*random)() % 2 == 0 ? rocksdb::Env::IO_HIGH : rocksdb::Env::IO_LOW);
  for (std::size_t done = 0; done < size;) {
    const std::size_t n = std::min<std::size_t>(size - done, 1 + (*random)() % 20000);
    ASSERT_OK(file->Append(Content(1, done, n), IOOptions(), nullptr));
    done += n;
    if ((*random)() % 4 != 0) continue;
    ASSERT_OK(file->Sync(IOOptions(), nullptr));
  }
  ASSERT_OK(file->Fsync(IOOptions(), nullptr));
  ASSERT_OK(file->Close(IOOptions(), nullptr));
}

inline void WriteTables(FileSystem* fs, int number, std::size_t most) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number));
  std::deque<std::string> kept;
  for (int i = 0; i < kFilesEach; ++i) {
    kept.push_back("/" + std::to_string(number) + "-" + std::to_string(i) + ".sst");
    WriteFile(fs, kept.back(), 1 + random() % kMaxFile, &random);
    if (kept.size() <= most) continue;
    const auto victim = kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size());
    ASSERT_OK(fs->DeleteFile(*victim, IOOptions(), nullptr));
    kept.erase(victim);
  }
}

inline void WriteLogs(FileSystem* fs, const std::atomic<bool>* stop) {
  for (int i = 0; !*stop; ++i) {
    const std::string name = "/" + std::to_string(i) + ".log";
    std::unique_ptr<rocksdb::FSWritableFile> log;
    ASSERT_OK(fs->NewWritableFile(name, FileOptions(), &log, nullptr));
    for (std::size_t done = 0; done < 40 && !*stop; ++done) {
      ASSERT_OK(log->Append(Content(7, done, 900), IOOptions(), nullptr));
      ASSERT_OK(log->Sync(IOOptions(), nullptr));
    }
    ASSERT_OK(log->Close(IOOptions(), nullptr));
    ASSERT_OK(fs->DeleteFile(name, IOOptions(), nullptr));
  }
}

inline void LoadAndKeep(FileSystem* fs, std::size_t kept) {
  std::atomic<bool> stop = false;
  std::thread logs(WriteLogs, fs, &stop);
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(WriteTables, fs, i, kept);
  for (std::thread& writer : writers) writer.join();
  stop = true;
  logs.join();
  std::vector<std::string> names;
  ASSERT_OK(fs->GetChildren("/", IOOptions(), &names, nullptr));
  for (const std::string& name : names) {
    if (!name.ends_with(".sst")) continue;
    ASSERT_OK(fs->DeleteFile("/" + name, IOOptions(), nullptr));
  }
}

inline void Load(FileSystem* fs) { LoadAndKeep(fs, kKept); }
inline void LoadWithRoom(FileSystem* fs) { LoadAndKeep(fs, kKeptWithRoom); }

class ReplayTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "zlfs-replay-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    trace_ = folder_ + "/trace";
  }
  // The trace of a failed test is kept, because its threads give another trace in the next run.
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  // Mounts the device, runs `load` on it, and unmounts it.
  void Record(EmulatedDevice* device, const std::string& identity, OptionMap options,
              const std::function<void(FileSystem*)>& load) {
    options["aux"] = folder_ + "/aux";
    options["trace"] = trace_;
    std::unique_ptr<FileSystem> fs;
    // The empty deleter lets the device outlive the mount.
    const std::shared_ptr<EmulatedDevice> shared(device, [](EmulatedDevice*) {});
    ASSERT_OK(
        OpenFileSystem(std::make_unique<HookedDevice>(shared, identity, [] {}), options, &fs));
    load(fs.get());
  }
  void Record(const OptionMap& options, const std::function<void(FileSystem*)>& load = Load,
              int mounts = 1) {
    const auto device = MakeDevice(kShape);
    ASSERT_OK(Mkfs(device.get(), Policy{}, ""));
    for (int i = 0; i < mounts; ++i) {
      Record(device.get(), device->geometry().identity, options, load);
    }
  }

  void Read() {
    mounts_.clear();
    ASSERT_OK(ReadTrace(trace_, &mounts_));
  }

  std::string ErrorOf(const std::function<void(std::string*)>& change) {
    std::ifstream in(trace_, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    change(&bytes);
    const std::string path = folder_ + "/changed";
    std::ofstream(path, std::ios::binary) << bytes;
    std::vector<Mount> mounts;
    const IOStatus status = ReadTrace(path, &mounts);
    const std::string text = status.getState() == nullptr ? "" : status.getState();
    return text.substr(0, text.find(':'));
  }

  std::string folder_;
  std::string trace_;
  std::vector<Mount> mounts_;
};

}  // namespace zlfs::replay
