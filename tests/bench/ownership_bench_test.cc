// The benchmark runs and writes every number that its readers look for. What the numbers are is not
// this test's business.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "tests/support/binary.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace warmring {
namespace {

TEST(OwnershipBenchTest, TheAdmissionPartWritesItsHeadline) {
  const auto binary = support::BinaryPath("ownership_bench");
  ASSERT_OK(binary);
  const auto directory = support::TempDir::Create("bench");
  ASSERT_OK(directory);
  const std::string out = (*directory)->File("ownership.json");
  support::ProcessOptions options;
  options.argv = {*binary, "--quick", "--part", "admission", "--out", out};
  options.log_path = (*directory)->File("log");
  const auto process = support::Process::Start(options);
  ASSERT_OK(process);
  const auto ended = (*process)->Wait(absl::Seconds(100));
  ASSERT_OK(ended);
  ASSERT_TRUE(ended->Succeeded()) << ended->Describe() << '\n' << (*process)->LogTail();

  const auto json = nlohmann::json::parse(support::ReadFile(out), nullptr, false);
  ASSERT_TRUE(json.is_object());
  for (const char* const key : {"admit_ns", "write_ns", "clock_ns", "admit_mutex_ns"}) {
    ASSERT_TRUE(json["headline"].contains(key)) << key;
    EXPECT_TRUE(json["headline"][key].is_number()) << key;
  }
  EXPECT_EQ(json["admission"].size(), 24U) << "twelve steps, on one thread and on two";
}

TEST(OwnershipBenchTest, RefusesWhatItDoesNotKnow) {
  const auto binary = support::BinaryPath("ownership_bench");
  ASSERT_OK(binary);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--part", "speed"}, std::vector<std::string>{"--out"},
        std::vector<std::string>{"--fast", "1"}}) {
    support::ProcessOptions options;
    options.argv = {*binary};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    const auto process = support::Process::Start(options);
    ASSERT_OK(process);
    const auto ended = (*process)->Wait(absl::Seconds(60));
    ASSERT_OK(ended);
    EXPECT_EQ(ended->code, 2) << words[0];
  }
}

}  // namespace
}  // namespace warmring
