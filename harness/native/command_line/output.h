// The end of a program's data on stdout.

#pragma once

#include <cstdio>
#include <stdexcept>

namespace command_line {

struct Unwritten : std::runtime_error {
  Unwritten() : std::runtime_error("the output cannot be written") {}
  static constexpr const char* kHint = "check stdout: a full disk?";
};

// Writes what stdout holds back. Throws Unwritten if any output of the program was lost.
inline void FlushOutput() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Unwritten();
}

}  // namespace command_line
