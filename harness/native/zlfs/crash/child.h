// Child processes of a campaign. The parent has no threads, so that children can start threads.

#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>

#include "rocksdb/status.h"
#include "zlfs/crash/database.h"

namespace zlfs::crash {

// Time limit of a child. SIGALRM kills a child that exceeds it.
inline constexpr unsigned kChildSeconds = 120;

// Allocates memory that the parent and its children share.
inline Progress* ShareProgress() {
  void* const memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Progress{};
}

// Runs `body` in a child. If the rocksdb::Status that it returns is ok, the child exits with 0.
// Otherwise the child prints the status and exits with 1. The child runs no destructors of the
// parent's objects.
template <typename Body>
pid_t Fork(const std::string& name, Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kChildSeconds);
  const rocksdb::Status status = body();
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
  std::fflush(nullptr);
  _exit(status.ok() ? 0 : 1);
}

// The end of a child: "" if its body was ok, "killed" after SIGKILL, otherwise the error.
inline std::string EndOf(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return WEXITSTATUS(wait_status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(wait_status));
  }
  if (WTERMSIG(wait_status) == SIGKILL) return "killed";
  if (WTERMSIG(wait_status) == SIGALRM) return "hung";
  return "signal " + std::to_string(WTERMSIG(wait_status));
}

inline std::string Wait(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child ? EndOf(status) : "lost";
}

}  // namespace zlfs::crash
