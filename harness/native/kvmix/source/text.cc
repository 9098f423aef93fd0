#include "kvmix/source/text.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace kvmix {
namespace {

constexpr std::string_view kVerbs = "IUDRQQS";  // by kind
static_assert(kVerbs.size() == kKinds);

}  // namespace

void AppendText(const Operation& operation, std::string* text) {
  text->push_back(kVerbs[Index(operation.kind)]);
  text->push_back(' ');
  text->append(operation.key);
  for (const std::string_view field : {operation.last, operation.value}) {
    if (field.empty()) continue;
    text->push_back(' ');
    text->append(field);
  }
  text->push_back('\n');
}

std::optional<Operation> ParseText(std::string_view line) {
  if (line.ends_with(' ')) line.remove_suffix(1);
  std::array<std::string_view, 3> fields;
  std::size_t count = 0;
  while (true) {
    const std::size_t end = line.find(' ');
    if (count == fields.size() || end == 0 || line.empty()) return std::nullopt;
    fields[count++] = line.substr(0, end);
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  const std::size_t verb = fields[0].size() == 1 ? kVerbs.find(fields[0][0]) : kVerbs.npos;
  if (verb == kVerbs.npos) return std::nullopt;
  Operation operation{.kind = static_cast<Kind>(verb), .key = fields[1], .last = {}, .value = {}};
  const bool point = operation.kind == Kind::kDelete || operation.kind == Kind::kQuery;
  if (count != (point ? 2U : 3U)) return std::nullopt;
  if (operation.kind == Kind::kInsert || operation.kind == Kind::kUpdate) {
    operation.value = fields[2];
  } else {
    operation.last = fields[2];
  }
  return operation;
}

std::unique_ptr<TraceSource> TraceSource::Open(const std::string& path, bool remember,
                                               std::string* problem) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    *problem = path + ": " + std::generic_category().message(errno);
    return nullptr;
  }
  return std::unique_ptr<TraceSource>(new TraceSource(std::move(file), path, remember));
}

bool TraceSource::ReadLine() {
  line_.clear();
  std::array<char, 4096> part;
  while (std::fgets(part.data(), static_cast<int>(part.size()), file_.get()) != nullptr) {
    line_.append(part.data());
    if (!line_.empty() && line_.back() == '\n') {
      line_.pop_back();
      return true;
    }
  }
  if (std::ferror(file_.get()) != 0) problem_ = path_ + ": cannot be read";
  return !line_.empty() && problem_.empty();
}

bool TraceSource::Next(Operation* operation) {
  if (!problem_.empty() || !ReadLine()) return false;
  ++number_;
  const std::optional<Operation> parsed = ParseText(line_);
  if (!parsed) {
    problem_ =
        path_ + ", line " + std::to_string(number_) + ": not an operation: " + line_.substr(0, 60);
    return false;
  }
  *operation = *parsed;
  Apply(operation);
  return true;
}

void TraceSource::Apply(Operation* operation) {
  switch (operation->kind) {
    case Kind::kInsert:
    case Kind::kUpdate:
      entries_.insert_or_assign(std::string(operation->key),
                                std::string(remember_ ? operation->value : std::string_view()));
      break;
    case Kind::kDelete:
      if (const auto entry = entries_.find(operation->key); entry != entries_.end()) {
        entries_.erase(entry);
      }
      break;
    case Kind::kRangeDelete:
      if (operation->key <= operation->last) {
        entries_.erase(entries_.lower_bound(operation->key), entries_.upper_bound(operation->last));
      }
      break;
    case Kind::kQuery:
      if (!entries_.contains(operation->key)) operation->kind = Kind::kAbsentQuery;
      break;
    default:
      break;
  }
}

std::optional<std::string_view> TraceSource::Expected(std::string_view key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return std::nullopt;
  return entry->second;
}

void TraceSource::ExpectedRange(std::string_view first, std::string_view last, const Entry& entry) {
  for (auto at = entries_.lower_bound(first); at != entries_.end() && at->first <= last; ++at) {
    if (!entry(at->first, at->second)) return;
  }
}

}  // namespace kvmix
