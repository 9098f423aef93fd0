// Tests of contents and of a server's report.

#include "zoneblk/status.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/tests/small_drive.h"
#include "zoneblk/contents.h"

namespace zoneblk {
namespace {

constexpr Bytes kMiB = 1024 * 1024;

class ContentsTest : public testing::TestWithParam<std::string> {};

TEST_P(ContentsTest, KeepsDataUntilItIsDiscarded) {
  const Contents contents(GetParam(), 64 * kMiB, kMiB);
  EXPECT_EQ(*contents.At(63 * kMiB), 0);
  std::memset(contents.At(kMiB), 'x', 2 * kMiB);
  EXPECT_TRUE(contents.Discard(kMiB, kMiB));
  EXPECT_EQ(*contents.At(kMiB), 0);
  EXPECT_EQ(*contents.At(2 * kMiB - 1), 0);
  EXPECT_EQ(*contents.At(2 * kMiB), 'x');
}

TEST_P(ContentsTest, DiscardsPartsOfPages) {
  const Contents contents(GetParam(), kMiB, kMiB);
  const std::string page(4096, 'x');
  for (const Bytes end : {1024U, 4096U, 4608U, 12288U, 13000U}) {
    for (Bytes at = 0; at < 16384; at += 4096) std::ranges::copy(page, contents.At(at));
    EXPECT_TRUE(contents.Discard(512, end - 512));
    EXPECT_EQ(*contents.At(511), 'x');
    EXPECT_TRUE(
        std::all_of(contents.At(512), contents.At(end), [](char byte) { return byte == 0; }));
    EXPECT_EQ(*contents.At(end), 'x');
  }
}

TEST_P(ContentsTest, RefusesADeviceThatCannotBeFilled) {
  EXPECT_THROW(Contents(GetParam(), kMiB, Bytes{1} << 60), zonemodel::BadInput);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ContentsTest, testing::Values("", testing::TempDir()));

TEST(Contents, LeavesNoFile) {
  const std::string folder = testing::TempDir() + "zoneblk-" + std::to_string(getpid());
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const Contents contents(folder, kMiB, kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_TRUE(std::filesystem::remove(folder));
}

TEST(Contents, RefusesAMissingFolder) {
  EXPECT_THROW(Contents("/nowhere", kMiB, kMiB), zonemodel::BadInput);
}

TEST(Lateness, CountsCompletionsOnTime) {
  Lateness lateness(5000, 8);
  EXPECT_TRUE(lateness.Report()["on_time_share"].is_null());
  EXPECT_EQ(lateness.Report()["latency_sum_ns"], 0);
  lateness.Record(13'000, 100'000);    // 1 us of the model after the wake-up
  lateness.Record(13'001, 100'000);    // a nanosecond more
  lateness.Record(14'000, 1'000'000);  // less than 2 %
  lateness.Record(4999, 0);            // a quick wake-up does not compensate for a late one
  EXPECT_DOUBLE_EQ(lateness.Report()["on_time_share"].get<double>(), 0.75);
  EXPECT_EQ(lateness.Report()["max_ns"], 14'000);
  EXPECT_EQ(lateness.Report()["count"], 4);
  EXPECT_EQ(lateness.Report()["late_sum_ns"], 8000 + 8001 + 9000);
  EXPECT_EQ(lateness.Report()["latency_sum_ns"], 1'200'000);
}

TEST(Name, DependsOnEveryParameter) {
  zonemodel::Json model = zonemodel::SmallDrive();
  const std::string name = NameOf(model);
  EXPECT_TRUE(name.starts_with("small-"));
  EXPECT_EQ(name, NameOf(zonemodel::SmallDrive()));
  model["zones"]["count"] = 8;
  EXPECT_NE(name, NameOf(model));
}

int Ask(const std::string& path) {
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

std::string ReadAll(int client) {
  std::string text(1 << 16, '\0');
  std::size_t length = 0;
  for (ssize_t got = 1; got > 0; length += static_cast<std::size_t>(got)) {
    got = read(client, text.data() + length, text.size() - length);
    if (got < 0) return {};
  }
  close(client);
  return text.substr(0, length);
}

TEST(Socket, AnswersWithTheStatus) {
  const std::string path = testing::TempDir() + "zoneblk_socket_test/ublkb7";
  const zonemodel::Parameters parameters = zonemodel::ReadParameters(zonemodel::SmallDrive());
  const Disk disk(parameters, true, 4, 1);
  const Identity identity{.device = "ublkb7",
                          .uuid = NewUuid(),
                          .model = NameOf(zonemodel::SmallDrive()),
                          .dilation = 8,
                          .overhead = 26'000,
                          .wakeup = 5000};
  {
    const Socket socket(path);
    socket.Answer("nobody asks");
    const int client = Ask(path);
    socket.Answer(StatusOf(identity, disk, Lateness(5000, 8)).dump());
    const zonemodel::Json status = zonemodel::Json::parse(ReadAll(client));
    EXPECT_EQ(status["server"], "zoneblk");
    EXPECT_EQ(status["device"], "ublkb7");
    EXPECT_EQ(status["uuid"].get<std::string>().size(), 36U);
    EXPECT_EQ(status["dilation"], 8);
    EXPECT_EQ(status["wakeup_ns"], 5000);
    EXPECT_EQ(status["size"], 32 * kMiB);
    EXPECT_EQ(status["commands"]["reset_all"]["count"], 0);
    const Socket other(path);  // as after a server that was killed
    close(Ask(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Socket, OfAKilledServerHasNoListener) {
  const std::string folder = testing::TempDir() + "zoneblk_killed_test";
  EXPECT_TRUE(KilledServers(folder + "/nowhere").empty());
  const Socket serves(SocketOf(folder, 3));
  {
    const Socket killed(SocketOf(folder, 12));
    std::filesystem::rename(SocketOf(folder, 12), SocketOf(folder, 4));
  }
  for (const char* foreign : {"/ublkb5x", "/ublkb", "/ublkb99999999999", "/ublkb-1"}) {
    std::ofstream(folder + foreign) << "";
  }
  EXPECT_EQ(KilledServers(folder), std::vector<std::uint32_t>{4});
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace zoneblk
