// What a URI, or a program, can say about a mount.

#pragma once

#include <map>
#include <string>

#include "rocksdb/io_status.h"
#include "zlfs/alloc/policy.h"

namespace zlfs {

using OptionMap = std::map<std::string, std::string>;

// Takes the policy options (docs/zlfs.md) out of `options` and changes `policy` accordingly.
// Errors: "bad-option" with the values that are allowed.
rocksdb::IOStatus TakePolicy(OptionMap* options, Policy* policy);

// The named option, or `otherwise`; takes it out of `options`.
std::string TakeOption(OptionMap* options, const std::string& name, const std::string& otherwise);

// "unknown-option" when something is left.
rocksdb::IOStatus NothingLeft(const OptionMap& options);

}  // namespace zlfs
