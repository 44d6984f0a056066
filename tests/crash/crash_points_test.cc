#include "tests/crash/crash_points.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

// A point that is in the sources and not in the list would be reached by nobody, and nobody would
// notice.

namespace warmring::crash {
namespace {

using ::testing::ContainerEq;
using Names = std::set<std::string>;

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Names Found(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  Names names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), expression);
       at != std::sregex_iterator(); ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

// The names that stand as literals below a directory.
Names PointsBelow(const std::string& directory, std::string_view but_not = "-") {
  const std::filesystem::path root(std::getenv("WARMRING_SOURCE_DIR"));
  Names names;
  for (const auto& file : std::filesystem::recursive_directory_iterator(root / directory)) {
    const std::string path = file.path().string();
    if (!path.ends_with(".cc") || path.ends_with("_test.cc")) continue;
    if (path.find(but_not) != std::string::npos) continue;
    names.merge(Found(ReadText(path), R"re(WARMRING_FP(?:_STATUS)?\("([a-z0-9.]+)"\))re"));
  }
  return names;
}

Names AsSet(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

TEST(CrashPointsTest, TheListHasThePointsOfTheOwnersAndOfTheClients) {
  EXPECT_THAT(PointsBelow("agent", "redis_module"), ContainerEq(AsSet(ListedCrashPoints().agent)));
  EXPECT_THAT(PointsBelow("agent/redis_module"), ContainerEq(AsSet(ListedCrashPoints().module)));
  EXPECT_THAT(PointsBelow("client"), ContainerEq(AsSet(ListedCrashPoints().client)));
}

TEST(CrashPointsTest, TheListHasThePersistsOfTheServer) {
  const std::filesystem::path root(std::getenv("WARMRING_SOURCE_DIR"));
  const std::string steps = ReadText(root / "migrations/step_builder.cc");
  const size_t begin = steps.find("FailpointOf(Step step)");
  Names persists =
      Found(steps.substr(begin, steps.find("\n}", begin) - begin), R"re(return "([a-z0-9]+)";)re");
  for (const char* file : {"server/conductor/conductor.cc", "server/sessions/sessions.cc"}) {
    persists.merge(Found(ReadText(root / file), R"re(request\.failpoint = "([a-z0-9]+)";)re"));
  }
  // No migration here ends so that a person is needed; and where a transfer begins anew, the record
  // alone changes.
  const Names unlisted = {"failed", "restart"};
  for (const std::string& name : unlisted) EXPECT_EQ(persists.erase(name), 1U) << name;
  EXPECT_THAT(persists, ContainerEq(AsSet(ListedPersists())));
}

TEST(CrashPointsTest, TheListHasTheOtherPointsOfTheServer) {
  const CrashPoints listed = ListedCrashPoints();
  for (const std::string& name : PointsBelow("server")) {
    EXPECT_THAT(listed.warmringd, ::testing::Contains(name));
  }
}

}  // namespace
}  // namespace warmring::crash
