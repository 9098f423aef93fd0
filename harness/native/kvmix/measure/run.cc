#include "kvmix/measure/run.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "kvmix/measure/check.h"
#include "kvmix/source/random.h"

namespace kvmix {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

// A thread that waits for its next operation checks for a stop this often.
constexpr auto kLongestSleep = std::chrono::milliseconds(100);
// Poll interval for the start file.
constexpr auto kLook = std::chrono::milliseconds(1);

std::uint64_t Nanoseconds(Clock::duration time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, nanoseconds(time).count()));
}

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Intended start times of one thread's operations, in seconds since the start of the run.
class Schedule {
 public:
  Schedule(const RunOptions& options, std::size_t thread, std::size_t threads)
      : random_(options.seed, kArrivals + kStreams * thread),
        poisson_(options.arrivals == Arrivals::kPoisson),
        step_(static_cast<double>(threads) / options.rate),
        // Threads take turns, so that the arrivals of all threads are evenly spaced.
        next_(static_cast<double>(thread) / options.rate) {}

  double Next() {
    const double now = next_;
    ++count_;
    if (poisson_) {
      next_ += -std::log1p(-random_.Share()) * step_;
    } else {
      next_ = first_ + static_cast<double>(count_) * step_;  // repeated addition would drift
    }
    return now;
  }

 private:
  Random random_;
  bool poisson_;
  double step_;
  double next_;
  double first_ = next_;
  std::uint64_t count_ = 0;
};

// State shared by all threads of a run.
struct Shared {
  Shared(const RunOptions& run_options, const std::atomic<bool>& stop_flag, std::size_t threads)
      : options(run_options), stop(stop_flag), running(threads) {}

  const RunOptions& options;
  const std::atomic<bool>& stop;
  const Clock::time_point began = Clock::now();
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running;  // guarded by mutex
  std::string problem;  // guarded by mutex; only the first problem is kept

  [[nodiscard]] bool Stopping() const {
    return failed.load(std::memory_order_relaxed) || stop.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool Over(Clock::time_point time) const {
    return options.duration > 0 && time >= began + Seconds(options.duration);
  }
  void Fail(const std::string& message) {
    const std::scoped_lock lock(mutex);
    if (!failed.exchange(true)) problem = message;
  }
};

class Thread {
 public:
  Thread(Worker worker, const RunOptions& options, std::size_t number, std::size_t threads)
      : worker_(std::move(worker)), checker_(options.verify) {
    outcome_.keep = options.verify;
    if (options.rate > 0) schedule_.emplace(options, number, threads);
  }

  void Run(Shared* shared) {
    Operation operation;
    std::string problem;
    while (!shared->Stopping()) {
      Clock::time_point intended{};
      if (schedule_) {
        intended = shared->began + Seconds(schedule_->Next());
        if (shared->Over(intended) || !Wait(intended, *shared)) break;
      } else if (shared->Over(Clock::now())) {
        // Checked before Next, because the source expects that each operation it returns is
        // executed. An operation that is issued in time counts in full.
        break;
      }
      if (!worker_.source->Next(&operation)) {
        if (!worker_.source->Problem().empty()) shared->Fail(worker_.source->Problem());
        break;
      }
      const Clock::time_point issued = Clock::now();
      if (!worker_.target->Apply(operation, &outcome_, &problem)) {
        shared->Fail(std::string(kKindNames[Index(operation.kind)]) + ": " + problem);
        break;
      }
      Record(operation, issued, schedule_ ? intended : issued, Clock::now());
    }
    ended_ = Clock::now();
    const std::scoped_lock lock(shared->mutex);
    if (--shared->running == 0) shared->ended.notify_all();
  }

  [[nodiscard]] std::uint64_t Done(std::size_t kind) const {
    return done_[kind].load(std::memory_order_relaxed);
  }

  // The longest operation since the last call, and the total time of all operations, in ns.
  std::uint64_t TakeLongest() { return longest_.exchange(0, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t Spent() const { return spent_.load(std::memory_order_relaxed); }

  void AddTo(RunResult* result, Clock::time_point began) const {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      KindResult& total = result->kinds[kind];
      total.service.Add(kinds_[kind].service);
      total.intended.Add(kinds_[kind].intended);
      total.user_bytes += kinds_[kind].user_bytes;
      total.found += kinds_[kind].found;
      total.entries += kinds_[kind].entries;
      total.bytes_read += kinds_[kind].bytes_read;
    }
    result->checked += checker_.checked();
    if (result->wrong == 0) result->first_wrong = checker_.first();
    result->wrong += checker_.wrong();
    const double seconds = std::chrono::duration<double>(ended_ - began).count();
    result->seconds = std::max(result->seconds, seconds);
  }

 private:
  static bool Wait(Clock::time_point intended, const Shared& shared) {
    while (true) {
      const Clock::time_point now = Clock::now();
      if (now >= intended) return true;
      if (shared.Stopping()) return false;
      std::this_thread::sleep_until(std::min(intended, now + kLongestSleep));
    }
  }

  void Record(const Operation& operation, Clock::time_point issued, Clock::time_point intended,
              Clock::time_point ended) {
    KindResult& kind = kinds_[Index(operation.kind)];
    kind.service.Record(Nanoseconds(ended - issued));
    if (schedule_) kind.intended.Record(Nanoseconds(ended - intended));
    kind.user_bytes += operation.UserBytes();
    kind.found += outcome_.found ? 1 : 0;
    kind.entries += outcome_.entries;
    kind.bytes_read += outcome_.bytes_read;
    // Only this thread writes the counter, so a load and a store replace an atomic addition.
    std::atomic<std::uint64_t>& done = done_[Index(operation.kind)];
    done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const std::uint64_t took = Nanoseconds(ended - intended);
    spent_.store(spent_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    // If the reader resets longest_ in between, the value counts in one of the two intervals.
    if (took > longest_.load(std::memory_order_relaxed)) {
      longest_.store(took, std::memory_order_relaxed);
    }
    checker_.Check(operation, outcome_, worker_.source);
    outcome_.found = false;
    outcome_.entries = outcome_.bytes_read = 0;
  }

  Worker worker_;
  Checker checker_;
  std::optional<Schedule> schedule_;
  Outcome outcome_;
  std::array<KindResult, kKinds> kinds_;
  std::array<std::atomic<std::uint64_t>, kKinds> done_{};
  std::atomic<std::uint64_t> longest_{0};  // ns, longest operation since the last TakeLongest
  std::atomic<std::uint64_t> spent_{0};    // ns, sum over all operations
  Clock::time_point ended_;
};

using Threads = std::vector<std::unique_ptr<Thread>>;

// Writes one CSV line per interval: seconds since the start, operations in total and by kind.
class Report {
 public:
  explicit Report(const RunOptions& options)
      : interval_(options.interval), latency_(options.report_latency) {
    if (options.report_file.empty()) return;
    file_.reset(std::fopen(options.report_file.c_str(), "we"));
    if (file_ == nullptr) {
      problem_ = options.report_file + ": cannot be written";
      return;
    }
    std::fputs("secs_elapsed,operations", file_.get());
    for (const std::string_view kind : kKindNames) {
      std::fprintf(file_.get(), ",%.*s", static_cast<int>(kind.size()), kind.data());
    }
    std::fputs(latency_ ? ",latency_mean_us,latency_max_us\n" : "\n", file_.get());
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

  // Writes one line per interval until all threads end, then one for the last partial interval.
  void Follow(const Threads& threads, Shared* shared) {
    std::unique_lock lock(shared->mutex);
    const auto all_ended = [shared] { return shared->running == 0; };
    for (std::uint64_t line = 1; shared->running > 0; ++line) {
      const auto due = shared->began + Seconds(interval_ * static_cast<double>(line));
      const bool ended = shared->ended.wait_until(lock, due, all_ended);
      lock.unlock();
      if (!ended) Line(threads, interval_ * static_cast<double>(line));
      lock.lock();
    }
    lock.unlock();
    Line(threads, std::chrono::duration<double>(Clock::now() - shared->began).count());
  }

 private:
  void Line(const Threads& threads, double seconds) {
    if (file_ == nullptr) return;
    std::array<std::uint64_t, kKinds> now{};
    for (const auto& thread : threads) {
      for (std::size_t kind = 0; kind < kKinds; ++kind) now[kind] += thread->Done(kind);
    }
    const auto total = [](const auto& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    };
    std::fprintf(file_.get(), "%.3f,%llu", seconds,
                 static_cast<unsigned long long>(total(now) - total(before_)));
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      std::fprintf(file_.get(), ",%llu",
                   static_cast<unsigned long long>(now[kind] - before_[kind]));
    }
    if (latency_) Latency(threads, total(now) - total(before_));
    std::fputc('\n', file_.get());
    std::fflush(file_.get());  // the runner reads it line by line
    before_ = now;
  }

  // Writes empty fields if no operation ended in the interval.
  void Latency(const Threads& threads, std::uint64_t operations) {
    std::uint64_t spent = 0;
    std::uint64_t longest = 0;
    for (const auto& thread : threads) {
      spent += thread->Spent();
      longest = std::max(longest, thread->TakeLongest());
    }
    constexpr double kMicrosecond = 1000;
    if (operations == 0) {
      std::fputs(",,", file_.get());
    } else {
      std::fprintf(
          file_.get(), ",%.3f,%.3f",
          static_cast<double>(spent - spent_) / static_cast<double>(operations) / kMicrosecond,
          static_cast<double>(longest) / kMicrosecond);
    }
    spent_ = spent;
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  double interval_;
  bool latency_;
  std::uint64_t spent_ = 0;  // ns, total at the last line
  std::unique_ptr<std::FILE, Close> file_;
  std::string problem_;
  std::array<std::uint64_t, kKinds> before_{};
};

}  // namespace

std::uint64_t RunResult::Operations() const {
  return std::accumulate(
      kinds.begin(), kinds.end(), std::uint64_t{0},
      [](std::uint64_t sum, const KindResult& kind) { return sum + kind.service.count(); });
}

std::uint64_t RunResult::UserBytes() const {
  return std::accumulate(
      kinds.begin(), kinds.end(), std::uint64_t{0},
      [](std::uint64_t sum, const KindResult& kind) { return sum + kind.user_bytes; });
}

bool WaitForStart(const RunOptions& options, const std::atomic<bool>& stop) {
  if (options.wait_for.empty()) return true;
  std::fputs("kvmix: ready\n", stderr);
  std::error_code ignored;  // an inaccessible file counts as absent
  while (!std::filesystem::exists(options.wait_for, ignored)) {
    if (stop) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

RunResult RunWorkload(std::vector<Worker> workers, const RunOptions& options,
                      const std::atomic<bool>& stop) {
  RunResult result;
  Report report(options);
  if (!report.problem().empty()) {
    result.problem = report.problem();
    return result;
  }
  Threads threads;
  for (Worker& worker : workers) {
    const std::size_t number = threads.size();
    threads.push_back(std::make_unique<Thread>(std::move(worker), options, number, workers.size()));
  }
  Shared shared(options, stop, threads.size());
  {
    std::vector<std::jthread> running;
    running.reserve(threads.size());
    for (const auto& thread : threads) {
      running.emplace_back([&shared, &thread] { thread->Run(&shared); });
    }
    report.Follow(threads, &shared);
  }
  for (const auto& thread : threads) thread->AddTo(&result, shared.began);
  result.problem = shared.problem;
  result.interrupted = stop.load();
  return result;
}

}  // namespace kvmix
