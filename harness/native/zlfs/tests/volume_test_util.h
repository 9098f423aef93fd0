// Shared by the tests of the file system: small emulated devices, a device with callbacks, and
// files with reproducible content.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "zlfs/fs/check.h"
#include "zlfs/fs/volume.h"
#include "zlfs/tests/device_test_util.h"
#include "zlfs/zoned/emulated_device.h"
#include "zlfs/zoned/forwarding_device.h"
#include "zlfs/zoned/open.h"

namespace zlfs {

// Makes a new device in memory. `options` is, for example, "zones=40&zone_size=64K".
inline std::unique_ptr<EmulatedDevice> MakeDevice(const std::string& options) {
  static int count = 0;
  const std::string name = "mem:volume-test-" + std::to_string(++count);
  std::unique_ptr<ZonedDevice> device;
  EXPECT_OK(OpenDevice(name + "?" + options, Access::kReadWrite, nullptr, &device));
  return std::unique_ptr<EmulatedDevice>(dynamic_cast<EmulatedDevice*>(device.release()));
}

// Forwards to another device. Calls a hook before and after each modifying command.
class HookedDevice final : public ForwardingDevice {
 public:
  using Hook = std::function<void()>;
  HookedDevice(std::shared_ptr<EmulatedDevice> inner, Hook hook)
      : ForwardingDevice(inner.get()), owned_(std::move(inner)), hook_(std::move(hook)) {}
  // Reports the identity of the device of which `inner` is a clone.
  HookedDevice(std::shared_ptr<EmulatedDevice> inner, const std::string& identity, Hook hook)
      : HookedDevice(std::move(inner), std::move(hook)) {
    geometry_.identity = identity;
  }
  // Makes zlfs use threads for reads and resets, as on a real drive.
  void AnswerInParallel() { geometry_.waits = true; }
  // Sets the limits that the device reports when it is opened.
  void SetLimits(std::uint32_t max_active, std::uint32_t max_open) {
    geometry_.max_active = max_active;
    geometry_.max_open = max_open;
  }

 private:
  IOStatus DoWrite(std::uint32_t zone, std::uint64_t offset, const Slice& buffer,
                   std::uint64_t* written) override {
    return Then(inner_->Write(zone, offset, buffer, written));
  }
  IOStatus DoFlush() override { return Then(inner_->Flush()); }
  IOStatus DoChange(std::uint32_t zone, ZoneCondition to) override {
    return Then(inner_->ChangeZone(zone, to));
  }
  IOStatus Then(IOStatus status) {
    hook_();
    return status;
  }

  const std::shared_ptr<EmulatedDevice> owned_;
  const Hook hook_;
};

// Bytes `from` to `from + size` of a file with the given seed. Made in words: under a sanitizer,
// single bytes would take most of the tests' time.
inline std::string Content(std::uint64_t seed, std::uint64_t from, std::uint64_t size) {
  const std::uint64_t first = from / 8;
  std::vector<std::uint64_t> words((from + size + 7) / 8 - first);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = (seed * 0x9e3779b97f4a7c15ULL) ^ ((first + i) * 0xff51afd7ed558ccdULL);
  }
  return std::string(reinterpret_cast<const char*>(words.data()) + from % 8, size);
}

inline std::string ReadWhole(Volume* volume, const std::string& name) {
  std::shared_ptr<File> file;
  EXPECT_OK(volume->files().Open(name, &file));
  if (file == nullptr) return {};
  std::string content(volume->reader().Size(file.get()), '\0');
  Slice read;
  EXPECT_OK(volume->reader().Read(file.get(), 0, content.size(), &read, content.data()));
  EXPECT_EQ(read.size(), content.size());
  return content;
}

inline Placement DataPlacement(std::uint8_t lifetime = 3, Cause cause = Cause::kCompaction) {
  return {.cause = cause, .job = true, .lifetime = lifetime};
}

inline Placement LogPlacement() { return {.cause = Cause::kWal, .lifetime = 2}; }

inline std::shared_ptr<File> Create(Volume* volume, const std::string& name, FileKind kind,
                                    const Placement& placement) {
  std::shared_ptr<File> file;
  EXPECT_OK(volume->files().Create(name, kind, &file));
  volume->writer().SetPlacement(file.get(), placement);
  return file;
}

inline std::unique_ptr<Volume> MountOk(std::unique_ptr<ZonedDevice> device,
                                       const MountOptions& options = {}) {
  std::unique_ptr<Volume> volume;
  EXPECT_OK(Volume::Mount(std::move(device), options, &volume));
  return volume;
}

inline std::string Violations(ZonedDevice* device) {
  std::vector<Violation> violations;
  const IOStatus status = Check(device, &violations);
  std::string text = status.ok() ? "" : status.ToString();
  for (const Violation& violation : violations) {
    text += std::to_string(violation.invariant) + ": " + violation.what + "\n";
  }
  return text;
}

inline std::uint64_t BytesWritten(const Totals& totals) {
  std::uint64_t sum = 0;
  for (const Totals::Bytes& bytes : totals.written) sum += bytes.payload + bytes.pad;
  return sum;
}

// Expects the ledger and the device's counters to agree.
inline void ExpectLedgerIsDevice(const Totals& totals, const Counters& before,
                                 const Counters& after) {
  EXPECT_EQ(BytesWritten(totals), after.bytes_written - before.bytes_written);
  EXPECT_EQ(totals.resets_data + totals.resets_metadata, after.resets - before.resets);
  EXPECT_EQ(totals.flushes, after.flushes - before.flushes);
  std::uint64_t finishes = 0;
  std::uint64_t given_up = 0;
  for (const auto& cause : totals.finishes) {
    finishes += cause.count;
    given_up += cause.given_up;
  }
  EXPECT_EQ(finishes, after.finishes - before.finishes);
  EXPECT_EQ(given_up, after.pad_bytes - before.pad_bytes);
}

}  // namespace zlfs
