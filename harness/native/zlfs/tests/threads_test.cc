// Calls RocksDB's FileSystem interface from many threads, on a device so full that garbage
// collection runs concurrently. Runs under ThreadSanitizer (preset tsan, label threads).

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rocksdb/file_system.h"
#include "zlfs/fs/file_system.h"
#include "zlfs/tests/async_test_util.h"
#include "zlfs/tests/volume_test_util.h"

namespace zlfs {
namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::IOOptions;

constexpr const char* kShape = "zones=48&zone_size=256K&zone_capacity=192K&max_active=14";
constexpr int kWriters = 3;
constexpr int kFilesEach = 500;  // files that each writer creates
constexpr std::size_t kKept =
    30;  // files kept at a time: 3 * 30 * 64 KiB are two thirds of the device
constexpr std::size_t kMaxFile = 128 << 10;

struct Kept {
  std::string name;
  std::uint64_t seed;
  std::size_t size;
};

IOStatus Fill(FileSystem* fs, const Kept& file, std::mt19937_64* random) {
  std::unique_ptr<rocksdb::FSWritableFile> writer;
  IOStatus status = fs->NewWritableFile(file.name, FileOptions(), &writer, nullptr);
  if (!status.ok()) return status;
  writer->SetWriteLifeTimeHint(static_cast<rocksdb::Env::WriteLifeTimeHint>(2 + file.seed % 3));
  writer->SetIOPriority(rocksdb::Env::IO_HIGH);  // the priority of flushes
  for (std::size_t done = 0; status.ok() && done < file.size;) {
    const std::size_t n = std::min<std::size_t>(file.size - done, 1 + (*random)() % 20000);
    status = writer->Append(Content(file.seed, done, n), IOOptions(), nullptr);
    done += n;
    if (status.ok() && (*random)() % 4 == 0) status = writer->Sync(IOOptions(), nullptr);
  }
  if (status.ok()) status = writer->Fsync(IOOptions(), nullptr);
  const IOStatus closed = writer->Close(IOOptions(), nullptr);
  return status.ok() ? closed : status;
}

// Reads the whole file in parts. Another thread can delete the file meanwhile.
IOStatus Verify(FileSystem* fs, const Kept& file) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> reader;
  IOStatus status = fs->NewRandomAccessFile(file.name, FileOptions(), &reader, nullptr);
  constexpr std::size_t kPart = 10000;
  std::vector<Begun> parts((file.size + kPart - 1) / kPart);
  std::vector<void*> handles;
  for (std::size_t i = 0; status.ok() && i < parts.size(); ++i) {
    status = parts[i].Begin(reader.get(), i * kPart, kPart);
    handles.push_back(parts[i].handle);
  }
  if (!status.ok()) return status;
  if (file.seed % 4 == 0) return fs->AbortIO(handles);
  status = fs->Poll(handles, handles.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (status.ok()) status = parts[i].status;
    const std::size_t n = std::min(kPart, file.size - i * kPart);
    EXPECT_TRUE(parts[i].result == Content(file.seed, i * kPart, n)) << file.name << ", part " << i;
  }
  return status;
}

// Creates, renames, reads and deletes this thread's files.
void WriteFiles(FileSystem* fs, int number, std::deque<Kept>* kept) {
  std::mt19937_64 random(static_cast<std::uint64_t>(number));
  const std::string directory = "/" + std::to_string(number);
  ASSERT_OK(fs->CreateDirIfMissing(directory, IOOptions(), nullptr));
  for (int i = 0; i < kFilesEach; ++i) {
    Kept file{directory + "/" + std::to_string(i) + ".sst", random(), 1 + random() % kMaxFile};
    ASSERT_OK(Fill(fs, file, &random));
    if (i % 5 == 0) {
      const std::string renamed = file.name + "r";
      ASSERT_OK(fs->RenameFile(file.name, renamed, IOOptions(), nullptr));
      file.name = renamed;
    }
    kept->push_back(file);
    ASSERT_OK(Verify(fs, (*kept)[random() % kept->size()]));
    if (kept->size() <= kKept) continue;
    const auto victim = kept->begin() + static_cast<std::ptrdiff_t>(random() % kept->size());
    ASSERT_OK(fs->DeleteFile(victim->name, IOOptions(), nullptr));
    kept->erase(victim);
  }
}

// Writes one WAL after another, as a database does: it flushes each record and syncs some. Closes
// and deletes a WAL when the next one has a record.
void WriteLogs(FileSystem* fs, const std::string& directory, const std::atomic<bool>* stop) {
  ASSERT_OK(fs->CreateDirIfMissing(directory, IOOptions(), nullptr));
  std::unique_ptr<rocksdb::FSWritableFile> before;
  for (int i = 0; !*stop; ++i) {
    const auto name = [&directory](int number) {
      return directory + "/" + std::to_string(number) + ".log";
    };
    std::unique_ptr<rocksdb::FSWritableFile> log;
    ASSERT_OK(fs->NewWritableFile(name(i), FileOptions(), &log, nullptr));
    for (std::size_t done = 0; done < 40 && !*stop; ++done) {
      ASSERT_OK(log->Append(Content(7, done, 900), IOOptions(), nullptr));
      ASSERT_OK(log->Flush(IOOptions(), nullptr));
      if (done % 4 == 3) {
        ASSERT_OK(log->Sync(IOOptions(), nullptr));
      }
      if (before == nullptr) continue;
      ASSERT_OK(std::exchange(before, nullptr)->Close(IOOptions(), nullptr));
      ASSERT_OK(fs->DeleteFile(name(i - 1), IOOptions(), nullptr));
    }
    before = std::move(log);
  }
}

// Behaves like iterators and monitors: lists all directories and reads the files of all writers.
void Look(FileSystem* fs, const std::atomic<bool>* stop) {
  for (unsigned round = 0; !*stop; ++round) {
    const std::string directory = "/" + std::to_string(round % kWriters);
    std::vector<std::string> names;
    fs->GetChildren(directory, IOOptions(), &names, nullptr).PermitUncheckedError();
    std::uint64_t free = 0;
    ASSERT_OK(fs->GetFreeSpace("/", IOOptions(), &free, nullptr));
    for (const std::string& name : names) {
      std::uint64_t size = 0;
      const std::string path = directory + "/" + name;
      std::unique_ptr<rocksdb::FSSequentialFile> file;
      if (!fs->GetFileSize(path, IOOptions(), &size, nullptr).ok()) continue;  // deleted
      if (!fs->NewSequentialFile(path, FileOptions(), &file, nullptr).ok()) continue;
      std::string scratch(size, '\0');
      Slice content;
      ASSERT_OK(file->Read(size, IOOptions(), &content, scratch.data(), nullptr));
    }
  }
}

TEST(Threads, WriteReadRenameDeleteAndListWhileGarbageIsCollected) {
  const std::shared_ptr<EmulatedDevice> device = MakeDevice(kShape);
  ASSERT_OK(Mkfs(device.get(), {.finish_remaining_pct = 20}, ""));
  const TemporaryFolder aux;
  const Counters formatted = device->counters();
  std::unique_ptr<FileSystem> fs;
  auto hooked = std::make_unique<HookedDevice>(device, [] {});
  hooked->AnswerInParallel();
  ASSERT_OK(OpenFileSystem(std::move(hooked), {{"aux", (aux / "aux").string()}}, &fs));
  std::deque<Kept> kept[kWriters];
  std::atomic<bool> stop = false;
  std::thread looking(Look, fs.get(), &stop);
  std::thread logging(WriteLogs, fs.get(), "/log", &stop);
  std::thread other(WriteLogs, fs.get(), "/other", &stop);
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(WriteFiles, fs.get(), i, &kept[i]);
  for (std::thread& writer : writers) writer.join();
  stop = true;
  looking.join();
  logging.join();
  other.join();
  for (const auto& files : kept) {
    for (const Kept& file : files) EXPECT_OK(Verify(fs.get(), file));
  }
  fs.reset();
  EXPECT_EQ(Violations(device.get()), "");

  // Garbage collection and finishes must have run, and the ledger must contain them.
  std::string line;
  std::string last;
  std::ifstream ledger((aux / "aux") / "ledger.jsonl");
  while (std::getline(ledger, line)) last = line;
  const auto close = nlohmann::json::parse(last);
  EXPECT_GT(close["written"]["gc"]["payload"], 0);
  EXPECT_GT(close["finishes"]["threshold"]["count"], 0);
  std::uint64_t written = 0;
  for (const auto& cause : close["written"]) {
    written += cause["payload"].get<std::uint64_t>() + cause["pad"].get<std::uint64_t>();
  }
  EXPECT_EQ(written, device->counters().bytes_written - formatted.bytes_written);
}

}  // namespace
}  // namespace zlfs
