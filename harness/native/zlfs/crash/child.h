// Processes of a campaign: forked from a parent without threads, so that they may start some.

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

// Longest life of a child: whoever takes longer hangs, and is killed by SIGALRM.
inline constexpr unsigned kChildSeconds = 120;

// Memory that parent and children share.
inline Progress* ShareProgress() {
  void* const memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Progress{};
}

// Runs `body`, which returns a rocksdb::Status, in a child that exits with 0 when it is ok; when
// not, the status is printed. Destructors of the parent's objects do not run in it.
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

// How a child ended: "" when its body was ok, "killed" by SIGKILL, or what went wrong.
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
