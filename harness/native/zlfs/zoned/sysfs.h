// What /sys tells of a block device. Tests hand in a tree of their own.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace zlfs {

class Sysfs {
 public:
  explicit Sysfs(std::filesystem::path root = "/sys") : root_(std::move(root)) {}

  // An attribute's text without white space around it; empty when it is absent.
  std::string Text(const std::string& device, const std::string& attribute) const;
  // An attribute as number; 0 when it is absent or not a number.
  std::uint64_t Number(const std::string& device, const std::string& attribute) const;

  // A limit of the device's queue. With NVMe multipath the head node says 0 and the path nodes
  // (nvme2c0n1 of nvme2n1) know; 0 when none of them has a limit.
  std::uint64_t QueueLimit(const std::string& device, const std::string& attribute) const;

  // The name that survives renumbering, formed as harness/observe/sysfs.py does: the first that is
  // set of eui.…, nguid.…, uuid.… and serial:nsid, with the kernel name where there is no serial.
  std::string Identity(const std::string& device) const;

 private:
  std::filesystem::path Block() const { return root_ / "class" / "block"; }

  std::filesystem::path root_;
};

}  // namespace zlfs
