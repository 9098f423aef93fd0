#include "zlfs/format/superblock.h"

#include <algorithm>
#include <cstring>

#include "zlfs/format/codec.h"

namespace zlfs {
namespace {

using rocksdb::IOStatus;

constexpr std::string_view kMagic = "ZLFSSB01";
constexpr std::size_t kPolicyOffset = 60;
constexpr std::size_t kIdentityOffset = 68;
constexpr std::size_t kMaxIdentity = 256;
constexpr std::size_t kLabelOffset = 328;

std::uint64_t SumWithoutField(std::string block) {
  StoreFixed<std::uint64_t>(block.data() + kSuperblockChecksumOffset, 0);
  return Checksum(block);
}

}  // namespace

std::string EncodeSuperblock(const Superblock& superblock) {
  std::string block(superblock.block_size, '\0');
  char* const at = block.data();
  std::copy(kMagic.begin(), kMagic.end(), at);
  StoreFixed(at + 8, kFormatVersion);
  StoreFixed(at + 12, superblock.block_size);
  StoreFixed(at + 24, superblock.generation);
  std::copy(superblock.volume.begin(), superblock.volume.end(), at + 32);
  StoreFixed(at + 48, superblock.zone_size);
  StoreFixed(at + 56, superblock.zone_count);
  const Policy& policy = superblock.policy;
  const std::uint8_t bytes[] = {policy.finish_remaining_pct,
                                policy.finish_occupancy_pct(),
                                policy.gc_start_pct,
                                static_cast<std::uint8_t>(policy.on_active_limit),
                                static_cast<std::uint8_t>(policy.gc_victim),
                                static_cast<std::uint8_t>(policy.gc),
                                static_cast<std::uint8_t>(policy.lifetimes)};
  std::copy(std::begin(bytes), std::end(bytes), at + kPolicyOffset);
  const std::string_view identity = std::string_view(superblock.identity).substr(0, kMaxIdentity);
  StoreFixed(at + kIdentityOffset, static_cast<std::uint16_t>(identity.size()));
  std::copy(identity.begin(), identity.end(), at + kIdentityOffset + 2);
  superblock.label.copy(at + kLabelOffset, kMaxLabel);
  StoreFixed(at + kSuperblockChecksumOffset, SumWithoutField(block));
  return block;
}

IOStatus DecodeSuperblock(std::string_view block, Superblock* superblock) {
  if (!block.starts_with(kMagic)) return IOStatus::Corruption("wrong-magic: not a zlfs superblock");
  const char* const at = block.data();
  const auto version = LoadFixed<std::uint32_t>(at + 8);
  if (version > kFormatVersion) {
    return IOStatus::NotSupported("newer-version: format " + std::to_string(version) +
                                  ", this zlfs knows " + std::to_string(kFormatVersion));
  }
  if (LoadFixed<std::uint64_t>(at + kSuperblockChecksumOffset) !=
      SumWithoutField(std::string(block))) {
    return IOStatus::Corruption("corrupt-superblock: wrong checksum");
  }
  const auto byte = [at](std::size_t i) {
    return static_cast<std::uint8_t>(at[kPolicyOffset + i]);
  };
  const auto identity_size = LoadFixed<std::uint16_t>(at + kIdentityOffset);
  Policy& policy = superblock->policy;
  policy = {.finish_remaining_pct = byte(0),
            .on_active_limit = static_cast<OnActiveLimit>(byte(3)),
            .lifetimes = byte(6) != 0,
            .gc = byte(5) != 0,
            .gc_start_pct = byte(2),
            .gc_victim = static_cast<Victim>(byte(4))};
  superblock->block_size = LoadFixed<std::uint32_t>(at + 12);
  if (version == 0 || superblock->block_size != block.size() || byte(0) > 100 || byte(2) == 0 ||
      byte(2) > 90 || byte(3) > static_cast<std::uint8_t>(OnActiveLimit::kWait) ||
      byte(4) > static_cast<std::uint8_t>(Victim::kCostBenefit) || identity_size > kMaxIdentity) {
    return IOStatus::Corruption("corrupt-superblock: a field is out of range");
  }
  superblock->generation = LoadFixed<std::uint64_t>(at + 24);
  std::copy_n(at + 32, superblock->volume.size(), superblock->volume.begin());
  superblock->zone_size = LoadFixed<std::uint64_t>(at + 48);
  superblock->zone_count = LoadFixed<std::uint32_t>(at + 56);
  superblock->identity = std::string(at + kIdentityOffset + 2, identity_size);
  superblock->label = std::string(at + kLabelOffset, strnlen(at + kLabelOffset, kMaxLabel));
  // Switches are 0 or 1, the two thresholds agree, and what has no meaning is zero.
  if (EncodeSuperblock(*superblock) != block) {
    return IOStatus::Corruption("corrupt-superblock: fields contradict each other");
  }
  return IOStatus::OK();
}

}  // namespace zlfs
