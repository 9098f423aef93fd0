// The six-verb text format of public key-value workload generators:
//
//   I key value     insert            R first last    delete a range
//   U key value     update            Q key           point query
//   D key           delete            S first last    range query
//
// One operation per line. One blank separates fields; a trailing blank is allowed. Ranges are
// closed, as in the public K-V-Workload-Generator, which picks `last` from the existing keys.

#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvmix/source/operation.h"

namespace kvmix {

// Appends the text form of an operation to `text`.
void AppendText(const Operation& operation, std::string* text);

// Parses one operation; its views point into the line. Returns nullopt for an invalid line. Point
// queries become kQuery, because the format does not record whether the key exists.
std::optional<Operation> ParseText(std::string_view line);

// Replays a file. Keeps the live keys in memory, with their values if `remember` is set.
class TraceSource : public Source {
 public:
  static std::unique_ptr<TraceSource> Open(const std::string& path, bool remember,
                                           std::string* problem);

  bool Next(Operation* operation) override;
  [[nodiscard]] const std::string& Problem() const override { return problem_; }
  std::optional<std::string_view> Expected(std::string_view key) override;
  void ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  TraceSource(File file, std::string path, bool remember)
      : file_(std::move(file)), path_(std::move(path)), remember_(remember) {}
  bool ReadLine();
  void Apply(Operation* operation);

  File file_;
  std::string path_;
  bool remember_;
  std::string line_;
  std::uint64_t number_ = 0;
  std::map<std::string, std::string, std::less<>> entries_;  // values only if `remember_`
  std::string problem_;
};

}  // namespace kvmix
