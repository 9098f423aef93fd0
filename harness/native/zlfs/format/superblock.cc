#include "zlfs/format/superblock.h"

#include <cstring>

#include "zlfs/format/codec.h"

namespace zlfs {

void Superblock::SetNames(const std::string& identity, const std::string& label) {
  identity_bytes = {};
  identity_size =
      static_cast<std::uint16_t>(identity.copy(identity_bytes.data(), identity_bytes.size()));
  label_bytes = {};
  label.copy(label_bytes.data(), kMaxLabel);
}

std::string EncodeSuperblock(const Superblock& superblock) {
  std::string block(superblock.block_size, '\0');
  std::memcpy(block.data(), &superblock, sizeof(superblock));
  const std::uint64_t checksum = Checksum(block);
  std::memcpy(block.data() + kSuperblockChecksumOffset, &checksum, sizeof(checksum));
  return block;
}

IOStatus DecodeSuperblock(std::string_view block, Superblock* superblock) {
  const Superblock right;
  std::memcpy(superblock, block.data(), sizeof(*superblock));
  if (superblock->magic != right.magic) {
    return IOStatus::Corruption("wrong-magic", "not a zlfs superblock");
  }
  if (superblock->version > right.version) {
    return IOStatus::NotSupported("newer-version", "format " + std::to_string(superblock->version) +
                                                       ", this zlfs knows " +
                                                       std::to_string(right.version));
  }
  // A changed version without a matching checksum is no older volume.
  Superblock sealed = *superblock;
  sealed.checksum = 0;
  if (superblock->version + 1 == kOldestVersion && superblock->block_size == block.size() &&
      EncodeSuperblock(sealed) == block) {
    return IOStatus::NotSupported("older-version", "format " + std::to_string(superblock->version) +
                                                       ", this zlfs knows " +
                                                       std::to_string(right.version));
  }
  const auto corrupt = [](const char* why) {
    return IOStatus::Corruption("corrupt-superblock", why);
  };
  superblock->checksum = 0;
  if (superblock->block_size != block.size() || EncodeSuperblock(*superblock) != block) {
    return corrupt("wrong checksum, or bytes behind the fields");
  }
  for (const PolicyField& field : kPolicyFields) {
    const std::uint8_t value = superblock->policy.*field.value;
    if (value < field.least || value > field.most) return corrupt("a policy is out of range");
  }
  if (superblock->identity_size > right.identity_bytes.size() ||
      superblock->label_bytes.back() != 0) {
    return corrupt("a name is too long");
  }
  // Unused fields must be zero, and the two thresholds must agree.
  Superblock same = *superblock;
  if (same.version < kOldestVersion) same.version = right.version;
  same.zeros = right.zeros;
  same.SetNames(superblock->identity(), superblock->label());
  const Policy& policy = superblock->policy;
  if (same != *superblock || policy.finish_remaining_pct + policy.finish_occupancy_pct != 100) {
    return corrupt("fields contradict each other");
  }
  return IOStatus::OK();
}

}  // namespace zlfs
