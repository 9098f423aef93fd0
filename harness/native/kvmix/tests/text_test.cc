#include "kvmix/source/text.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace kvmix {
namespace {

// Lines in the format of public generators: a blank may follow the last field.
constexpr std::string_view kTrace =
    "I k1 v1\nI k2 v2\nI k3 v3\nU k2 new\nQ k2\nQ none\nS k1 k2\nD k1 \nQ k1\nR k2 k3\nS k1 k9\n";

class Trace : public testing::Test {
 protected:
  Trace() : path_(testing::TempDir() + "kvmix-trace-" + std::to_string(getpid())) {}
  ~Trace() override { std::filesystem::remove(path_); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::unique_ptr<TraceSource> Open(std::string_view text) {
    std::ofstream(path_) << text;
    std::string problem;
    return TraceSource::Open(path_, true, &problem);
  }

 private:
  std::string path_;
};

TEST(Text, EveryLineComesBack) {
  std::string_view rest = kTrace;
  while (!rest.empty()) {
    std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(line.size() + 1);
    const auto operation = ParseText(line);
    ASSERT_TRUE(operation) << line;
    if (line.ends_with(' ')) line.pop_back();
    std::string text;
    AppendText(*operation, &text);
    EXPECT_EQ(text, line + "\n");
  }
}

TEST(Text, DamagedLinesAreRefused) {
  for (const char* line : {"", " ", "I", "I k", "I k ", "I k v more", "Q", "Q k v", "X k v",
                           "IU k v", "I  v", "S a", "D", "i k v", "R a b c"}) {
    EXPECT_FALSE(ParseText(line)) << "'" << line << "'";
  }
}

TEST_F(Trace, KnowsWhatReadsMustReturn) {
  const auto source = Open(kTrace);
  ASSERT_NE(source, nullptr);
  Operation operation;
  std::string kinds;
  std::string scanned;
  while (source->Next(&operation)) {
    kinds += std::to_string(Index(operation.kind));
    if (operation.kind == Kind::kQuery) {
      EXPECT_EQ(source->Expected(operation.key), "new");
    }
    if (operation.kind != Kind::kScan) continue;
    source->ExpectedRange(operation.key, operation.last, [&scanned](auto key, auto value) {
      scanned.append(key).append(value).append(";");
      return true;
    });
    scanned += '|';
  }
  EXPECT_EQ(source->Problem(), "");
  EXPECT_EQ(kinds, "00014562536");  // queries of absent keys have their own kind
  EXPECT_EQ(scanned, "k1v1;k2new;||");
}

TEST_F(Trace, NamesTheDamagedLine) {
  const auto source = Open("I k v\nI k\n");
  Operation operation;
  EXPECT_TRUE(source->Next(&operation));
  EXPECT_FALSE(source->Next(&operation));
  EXPECT_NE(source->Problem().find("line 2"), std::string::npos);
}

TEST_F(Trace, TheLastLineNeedsNoNewlineAndLinesCanBeLong) {
  const std::string value(100'000, 'v');
  const auto source = Open("I k " + value + "\nQ k");
  Operation operation;
  ASSERT_TRUE(source->Next(&operation));
  EXPECT_EQ(operation.value, value);
  ASSERT_TRUE(source->Next(&operation));
  EXPECT_EQ(operation.kind, Kind::kQuery);
  EXPECT_FALSE(source->Next(&operation));
}

TEST(TraceFile, AMissingFileIsNamed) {
  std::string problem;
  EXPECT_EQ(TraceSource::Open("/no/such/file", false, &problem), nullptr);
  EXPECT_NE(problem.find("/no/such/file"), std::string::npos);
}

}  // namespace
}  // namespace kvmix
