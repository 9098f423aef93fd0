// The six-verb text format of public key-value workload generators:
//
//   I key value     insert            R first last    delete a range
//   U key value     update            Q key           point query
//   D key           delete            S first last    range query
//
// One operation a line, fields separated by one blank (a blank at the end is allowed). Ranges are
// closed, as in the public K-V-Workload-Generator: it takes `last` from the keys that are there.

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

// Puts an operation in its textual form behind what `text` holds.
void AppendText(const Operation& operation, std::string* text);

// Reads the text of one operation; views point into the line. Nothing: it is damaged. Point queries
// come out as kQuery: whether the key is there is not written.
std::optional<Operation> ParseText(std::string_view line);

// Replays a file. Keys that must be there are kept in memory, with their values if `remember`.
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
