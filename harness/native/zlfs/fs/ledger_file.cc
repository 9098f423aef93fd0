#include "zlfs/fs/ledger_file.h"

#include <pthread.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>

namespace zlfs {

IOStatus LedgerFile::Open(const std::string& path, std::chrono::seconds interval) {
  file_.open(path, std::ios::app);
  if (!file_) return IOStatus::IOError("ledger", path + ": " + std::strerror(errno));
  thread_ = std::jthread([this, interval](const std::stop_token& stop) { Keep(stop, interval); });
  return IOStatus::OK();
}

void LedgerFile::Close() {
  thread_ = {};  // stops and joins the thread
  // A mount that failed early has nothing to count.
  if (state_->allocator == nullptr) return;
  if (!file_.is_open() && !state_->trace.on()) return;
  const std::string line = Line("close");
  file_ << line << std::endl;
  if (state_->trace.on()) state_->trace.End(line);
}

void LedgerFile::Keep(const std::stop_token& stop, std::chrono::seconds interval) {
  pthread_setname_np(pthread_self(), "zlfs-ledger");  // allows measuring its CPU time
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  const auto stopped = [&stop] { return stop.stop_requested(); };
  while (!never.wait_for(lock, stop, interval, stopped)) {
    file_ << Line("sample") << std::endl;
  }
}

std::string LedgerFile::Line(const char* event) {
  const Totals totals = state_->io.totals();
  const std::lock_guard lock(state_->mutex);
  const Allocator& allocator = *state_->allocator;
  nlohmann::json line = LedgerCounts(totals, collector_->collected_zones(), SpaceOf(allocator),
                                     commands_->TakeRetired());
  line["t"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  line["mounted"] = mounted_;
  line["collecting_ns"] = collector_->time().count();
  line["identity"] = state_->superblock.identity();
  line["event"] = event;
  if (event == std::string_view("close")) line["zones"] = LedgerZones(allocator);
  return line.dump();
}

}  // namespace zlfs
