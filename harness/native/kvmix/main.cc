// kvmix: runs a mix of operations on a RocksDB database on any file system. See docs/kvmix.md.

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "kvmix/database/database.h"
#include "kvmix/measure/run.h"
#include "kvmix/measure/summary.h"
#include "kvmix/source/mix.h"
#include "kvmix/source/text.h"

namespace kvmix {
namespace {

enum Exit : int { kDone = 0, kUsage = 2, kFailed = 4, kInterrupted = 130 };

constexpr int kSummaryVersion = 1;
constexpr std::size_t kTextBuffer = 1 << 20;

// Set by SIGINT and SIGTERM.
std::atomic<bool> stop_requested{false};
void RequestStop(int /*signal*/) { stop_requested = true; }

struct Flags {
  MixOptions mix;
  RunOptions run;
  DatabaseOptions database;
  double absent_share = 0;
  std::string key_order = "random";
  std::string distribution = "uniform";
  std::string arrivals = "fixed";
  bool dry_run = false;
  std::string out;
  std::string trace;
};

Exit Complain(const std::string& message, Exit exit) {
  std::fprintf(stderr, "kvmix: %s\n", message.c_str());
  return exit;
}

// -- flags ----------------------------------------------------------------------------------------

// Rejects negative numbers, which would otherwise be parsed as numbers near 2^64.
template <typename T>
void AddCount(CLI::App* app, const std::string& name, T* value, const std::string& text) {
  app->add_option(name, *value, text)->check(CLI::NonNegativeNumber);
}

void AddMix(CLI::App* app, Flags* flags) {
  MixOptions& mix = flags->mix;
  CLI::App* const group = app->add_option_group("Mix", "Weights are relative to their sum.");
  const auto weight = [&](const char* name, Kind kind, const char* text) {
    group->add_option(name, mix.weights[Index(kind)], text);
  };
  weight("--insert", Kind::kInsert, "weight of inserts of new keys (0)");
  weight("--update", Kind::kUpdate, "weight of updates of live keys (0)");
  weight("--delete", Kind::kDelete, "weight of deletes of one live key (0)");
  weight("--range_delete", Kind::kRangeDelete, "weight of range deletes (0)");
  weight("--query", Kind::kQuery, "weight of point queries (0)");
  weight("--scan", Kind::kScan, "weight of range queries (0)");
  group
      ->add_option("--absent_share", flags->absent_share,
                   "share of point queries for keys that never existed (0)")
      ->check(CLI::Range(0.0, 1.0));
  AddCount(group, "--range_keys", &mix.range_keys, "keys in a range, on average (100)");
  AddCount(group, "--operations", &mix.operations, "operations of all threads (0: no limit)");
  group->add_flag(
      "--gated", mix.gated,
      "exact counts, interleaved as by K-V-Workload-Generator: updates and deletes start "
      "after 10 % of the inserts, queries after 40 % (false)");
  CLI::App* const keys = app->add_option_group("Keys and values");
  AddCount(keys, "--key_size", &mix.keys.key_size, "bytes (16)");
  AddCount(keys, "--value_size", &mix.value_size, "bytes (100)");
  AddCount(keys, "--existing", &mix.keys.existing, "keys that earlier phases inserted (0)");
  AddCount(keys, "--key_space", &mix.keys.key_space,
           "largest number of keys that all phases insert (existing + operations)");
  keys->add_option("--key_order", flags->key_order, "random or sequential (random)")
      ->check(CLI::IsMember({"random", "sequential"}));
  keys->add_option("--distribution", flags->distribution,
                   "keys of updates and queries: uniform, zipfian (oldest keys most often) or "
                   "latest (newest keys most often) (uniform)")
      ->check(CLI::IsMember({"uniform", "zipfian", "latest"}));
  keys->add_option("--theta", mix.theta, "skew of zipfian and latest, below 1 (0.99)");
  keys->add_option("--compression_ratio", mix.compression_ratio,
                   "compressed size of a value / its size (0.5)")
      ->check(CLI::Range(0.0, 1.0));
  mix.compression_ratio = 0.5;  // db_bench's default
  keys->add_option("--threads", mix.keys.slices,
                   "number of threads, each with its part of the key space (1)")
      ->check(CLI::Range(1, 1024));
  AddCount(keys, "--seed", &mix.seed, "seed of operations and arrivals (0)");
  AddCount(keys, "--key_seed", &mix.keys.key_seed,
           "seed of the key order; use the same in all phases over one database (0)");
}

void AddRun(CLI::App* app, Flags* flags) {
  RunOptions& run = flags->run;
  CLI::App* const group = app->add_option_group("Measuring");
  group
      ->add_option("--rate", run.rate,
                   "operations per second of all threads, each with an intended start; 0: closed "
                   "loop (0)")
      ->check(CLI::NonNegativeNumber);
  group->add_option("--arrivals", flags->arrivals, "fixed or poisson, with --rate (fixed)")
      ->check(CLI::IsMember({"fixed", "poisson"}));
  group->add_option("--duration", run.duration, "seconds; 0: until all operations end (0)")
      ->check(CLI::NonNegativeNumber);
  group->add_flag(
      "--verify", run.verify,
      "check every value and range, and the whole database at the end (false: check only "
      "that keys exist)");
  group->add_option("--report_file", run.report_file, "CSV of operations per interval (none)");
  group->add_option("--report_interval_seconds", run.interval, "(1)")->check(CLI::PositiveNumber);
  group->add_flag(
      "--report_latency", run.report_latency,
      "add mean and maximum latency of each interval to the report, with --rate from the "
      "intended start (false)");
  group->add_option("--wait_for", run.wait_for,
                    "open the database, print `ready` on stderr, and start when this file exists "
                    "(none)");
  group->add_flag("--dry_run", flags->dry_run, "generate operations without a database (false)");
}

void AddDatabase(CLI::App* app, Flags* flags) {
  DatabaseOptions& database = flags->database;
  CLI::App* const group = app->add_option_group("Database", "Names and defaults are db_bench's.");
  group->add_option("--db", database.db, "folder of the database on the file system of --fs_uri");
  group->add_option("--fs_uri", database.fs_uri, "file system; its library may be preloaded");
  group->add_flag("--use_existing_db", database.use_existing_db,
                  "use the database in --db instead of creating it (false)");
  group->add_flag("--statistics", database.statistics, "RocksDB's tickers and histograms (false)");
  group->add_flag("--sync", database.sync, "sync every write (false)");
  group->add_flag("--disable_wal", database.disable_wal, "(false)");
  group->add_option("--compression_type", database.compression_type,
                    "none, snappy, zlib, bzip2, lz4, lz4hc or zstd (snappy)");
  group->add_option("--cache_size", database.cache_size,
                    "bytes of the block cache; 0: none (33554432)");
  AddCount(group, "--block_size", &database.block_size, "bytes (4096)");
  group->add_option("--bloom_bits", database.bloom_bits,
                    "filter bits per key; 0 or less: no filter (-1)");
  group
      ->add_option("--checksum_type", database.checksum_type,
                   "checksum of table blocks: 0 none, 1 CRC32c, 2 XXH32, 3 XXH64, 4 XXH3 (4)")
      ->check(CLI::Range(0, 4));
  for (const RocksFlag& flag : RocksFlags()) {
    group->add_option_function<std::string>(
        std::string("--") + flag.name,
        [&database, name = flag.name](const std::string& value) { database.flags[name] = value; },
        std::string("(") + flag.fallback + ")");
  }
}

// Converts text flags to their options and checks that all flags are consistent.
std::optional<std::string> Settle(Flags* flags) {
  MixOptions& mix = flags->mix;
  double& present = mix.weights[Index(Kind::kQuery)];
  mix.weights[Index(Kind::kAbsentQuery)] = present * flags->absent_share;
  present *= 1 - flags->absent_share;
  mix.keys.sequential = flags->key_order == "sequential";
  mix.distribution = flags->distribution == "zipfian"  ? Distribution::kZipfian
                     : flags->distribution == "latest" ? Distribution::kLatest
                                                       : Distribution::kUniform;
  mix.remember = flags->run.verify;
  if (mix.operations == 0 && flags->run.duration == 0)
    return "--operations or --duration is needed";
  if (mix.keys.key_space == 0) {
    if (mix.operations == 0 && mix.weights[Index(Kind::kInsert)] > 0) {
      return "inserts without a limit need --key_space";
    }
    mix.keys.key_space = mix.keys.existing + mix.operations;
  }
  return Fault(mix);
}

// -- commands -------------------------------------------------------------------------------------

Exit OpenDatabase(const Flags& flags, std::unique_ptr<Database>* database) {
  if (flags.database.db.empty()) return Complain("--db is needed (or --dry_run)", kUsage);
  const rocksdb::Status status = Database::Open(flags.database, database);
  if (status.ok()) return kDone;
  return Complain(status.ToString(), status.IsInvalidArgument() ? kUsage : kFailed);
}

// Runs each source in its own thread and prints the summary unless the run fails.
Exit Measure(const char* command, const Flags& flags, const std::vector<Source*>& sources) {
  std::unique_ptr<Database> database;
  if (!flags.dry_run) {
    if (const Exit exit = OpenDatabase(flags, &database); exit != kDone) return exit;
  }
  std::vector<Worker> workers;
  for (Source* const source : sources) {
    workers.push_back({source, flags.dry_run ? std::make_unique<NoTarget>() : database->Session()});
  }
  if (!WaitForStart(flags.run, stop_requested)) return Complain("interrupted", kInterrupted);
  RunResult result = RunWorkload(std::move(workers), flags.run, stop_requested);
  if (!result.problem.empty()) return Complain(result.problem, kFailed);
  if (result.interrupted) return Complain("interrupted", kInterrupted);
  nlohmann::ordered_json summary{{"program", "kvmix"},     {"schema_version", kSummaryVersion},
                                 {"command", command},     {"threads", sources.size()},
                                 {"seed", flags.mix.seed}, {"rate", flags.run.rate}};
  summary.update(Summary(result));
  if (database != nullptr) {
    summary["rocksdb"] = database->Statistics();
    if (flags.run.verify) {
      const std::string fault = database->Sweep(sources);
      summary["verified"]["whole"] = fault.empty();
      if (result.first_wrong.empty()) result.first_wrong = fault;
    }
    if (const auto status = database->Close(); !status.ok()) {
      return Complain("close: " + status.ToString(), kFailed);
    }
  }
  std::cout << summary.dump() << std::endl;
  if (!std::cout) return Complain("cannot write to stdout", kFailed);
  if (result.first_wrong.empty()) return kDone;
  return Complain("verification: " + result.first_wrong, kFailed);
}

std::vector<std::unique_ptr<MixSource>> MakeSources(const MixOptions& mix) {
  std::vector<std::unique_ptr<MixSource>> sources;
  for (unsigned thread = 0; thread < mix.keys.slices; ++thread) {
    sources.push_back(std::make_unique<MixSource>(mix, thread));
  }
  return sources;
}

Exit RunMix(Flags* flags) {
  if (const auto fault = Settle(flags)) return Complain(*fault, kUsage);
  flags->run.seed = flags->mix.seed;
  flags->run.arrivals = flags->arrivals == "poisson" ? Arrivals::kPoisson : Arrivals::kFixed;
  const auto owned = MakeSources(flags->mix);
  std::vector<Source*> sources;
  for (const auto& source : owned) sources.push_back(source.get());
  return Measure("run", *flags, sources);
}

Exit Replay(Flags* flags) {
  std::string problem;
  flags->run.arrivals = flags->arrivals == "poisson" ? Arrivals::kPoisson : Arrivals::kFixed;
  const auto source = TraceSource::Open(flags->trace, flags->run.verify, &problem);
  if (source == nullptr) return Complain(problem, kUsage);
  return Measure("replay", *flags, {source.get()});
}

// Writes the operations as text, taking one from each thread in turn.
Exit Generate(Flags* flags) {
  if (const auto fault = Settle(flags)) return Complain(*fault, kUsage);
  if (flags->mix.operations == 0) return Complain("--operations is needed", kUsage);
  const bool to_stdout = flags->out == "-";
  std::FILE* const file = to_stdout ? stdout : std::fopen(flags->out.c_str(), "we");
  const auto failed = [flags] {
    return Complain(flags->out + ": " + std::generic_category().message(errno), kFailed);
  };
  if (file == nullptr) return failed();
  const auto sources = MakeSources(flags->mix);
  std::string text;
  std::string problem;
  bool more = true;
  while (more && problem.empty() && !stop_requested) {
    more = false;
    for (const auto& source : sources) {
      Operation operation;
      if (source->Next(&operation)) {
        AppendText(operation, &text);
        more = true;
      } else if (problem.empty()) {
        problem = source->Problem();
      }
    }
    if (text.size() < kTextBuffer && more) continue;
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) return failed();
    text.clear();
  }
  if (std::fflush(file) != 0 || (!to_stdout && std::fclose(file) != 0)) return failed();
  if (!problem.empty()) return Complain(problem, kFailed);
  return stop_requested ? Complain("interrupted", kInterrupted) : kDone;
}

}  // namespace

// Outside the unnamed namespace, because main calls it.
static int RunProgram(int argc, char** argv) {
  CLI::App app("A mix of operations on a RocksDB database, seeded, measured and verified.",
               "kvmix");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done, 2 usage, 4 failed or wrong data, 130 interrupted. stdout: one line of\n"
      "JSON (run, replay); histograms are in ns, buckets are [low, high, count] of (low, high].");
  Flags flags;
  Exit exit = kDone;
  CLI::App* const run = app.add_subcommand("run", "apply a mix of operations to a database");
  AddMix(run, &flags);
  AddRun(run, &flags);
  AddDatabase(run, &flags);
  run->footer(
      "Examples:\n"
      "  kvmix run --db=/mnt/db --insert=1 --operations=1000000 --key_space=3000000\n"
      "  kvmix run --db=/mnt/db --use_existing_db --existing=1000000 --key_space=3000000 --seed=1 "
      "\\\n"
      "    --insert=50 --update=25 --delete=10 --query=15 --absent_share=0.1 --operations=2000000\n"
      "  kvmix run --fs_uri='zlfs://dev:nvme0n2?aux=/tmp/aux' --db=db --insert=1 "
      "--operations=1000\n"
      "  kvmix run --db=/mnt/db --use_existing_db --existing=1000000 --query=1 --rate=5000 \\\n"
      "    --duration=60 --distribution=zipfian --threads=8\n"
      "  kvmix run --dry_run --insert=1 --operations=10000000   # measures the generator alone");
  run->callback([&] { exit = RunMix(&flags); });
  CLI::App* const replay = app.add_subcommand("replay", "apply the operations of a text file");
  replay->add_option("--trace", flags.trace, "the file: I k v, U k v, D k, R a b, Q k, S a b")
      ->required();
  AddRun(replay, &flags);
  AddDatabase(replay, &flags);
  replay->footer("Example:\n  kvmix replay --trace=workload.txt --db=/mnt/db --verify");
  replay->callback([&] { exit = Replay(&flags); });
  CLI::App* const generate = app.add_subcommand("generate", "write the operations to a text file");
  generate->add_option("--out", flags.out, "output file; - is stdout")->required();
  AddMix(generate, &flags);
  generate->footer(
      "Example:\n  kvmix generate --out=workload.txt --gated --insert=50 --update=25 --delete=10 "
      "\\\n"
      "    --query=15 --absent_share=0.1 --operations=100000 --seed=1");
  generate->callback([&] { exit = Generate(&flags); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "kvmix: %s\nhint: kvmix --help, kvmix run --help\n", error.what());
    return kUsage;
  }
  return exit;
}

}  // namespace kvmix

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = kvmix::RequestStop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  try {
    return kvmix::RunProgram(argc, argv);
  } catch (const std::exception& error) {  // only libraries throw
    std::fprintf(stderr, "kvmix: %s\n", error.what());
    return 4;
  }
}
