// What a URI, or a program, can say about a mount.

#pragma once

#include <map>
#include <string>

#include "rocksdb/io_status.h"
#include "zlfs/alloc/policy.h"

namespace zlfs {

using OptionMap = std::map<std::string, std::string>;

// Changes the policy as the options say (docs/zlfs.md). Errors: "bad-option" with the values that
// are allowed, "unknown-option".
rocksdb::IOStatus ChangePolicy(OptionMap options, Policy* policy);

// The named option, or `otherwise`; takes it out of `options`.
std::string TakeOption(OptionMap* options, const std::string& name, const std::string& otherwise);

// "unknown-option" when something is left.
rocksdb::IOStatus NothingLeft(const OptionMap& options);

}  // namespace zlfs
