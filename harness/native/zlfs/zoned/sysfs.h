// Reads block device attributes from /sys. Tests supply their own directory tree.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace zlfs {

class Sysfs {
 public:
  explicit Sysfs(std::filesystem::path root = "/sys") : root_(std::move(root)) {}

  // Returns an attribute's text without surrounding white space; empty if it is missing.
  std::string Text(const std::string& device, const std::string& attribute) const;
  // Returns an attribute as a number; 0 if it is missing or not a number.
  std::uint64_t Number(const std::string& device, const std::string& attribute) const;

  // Returns a limit of the device's queue; 0 means no limit. With NVMe multipath, the head node
  // (nvme2n1) reports 0, so the path nodes (nvme2c0n1) are read too.
  std::uint64_t QueueLimit(const std::string& device, const std::string& attribute) const;

  // Returns an identity that is stable when devices are renumbered: the first available one of
  // eui.…, nguid.…, uuid.… and serial:nsid. Without a serial, the kernel name replaces it.
  // harness/observe/sysfs.py must derive the same string.
  std::string Identity(const std::string& device) const;

 private:
  std::filesystem::path Block() const { return root_ / "class" / "block"; }

  std::filesystem::path root_;
};

}  // namespace zlfs
