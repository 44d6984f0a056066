// The benchmark runs and writes every number that its readers look for. What the numbers are is
// not this test's business.

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

TEST(PlacementBenchTest, WritesEveryHeadline) {
  const auto binary = support::BinaryPath("placement_bench");
  ASSERT_OK(binary);
  const auto directory = support::TempDir::Create("bench");
  ASSERT_OK(directory);
  const std::string out = (*directory)->File("placement.json");
  support::ProcessOptions options;
  options.argv = {*binary, "--quick", "--out", out};
  options.log_path = (*directory)->File("log");
  const auto process = support::Process::Start(options);
  ASSERT_OK(process);
  const auto ended = (*process)->Wait(absl::Seconds(250));
  ASSERT_OK(ended);
  ASSERT_TRUE(ended->Succeeded()) << ended->Describe() << '\n' << (*process)->LogTail();

  const auto json = nlohmann::json::parse(support::ReadFile(out), nullptr, false);
  ASSERT_TRUE(json.is_object());
  const auto& headline = json["headline"];
  for (const char* const key :
       {"directory_vs_libmemcached_n100", "directory_vs_maglev_n100", "ring_vs_branchless_n100",
        "ring_vs_libmemcached_n100", "locate_vs_hash", "balance_max_mean_n100_p16",
        "movement_vs_ideal_worst", "domain_violations", "table_build_10k_x256_s",
        "table_bytes_per_token", "delta_vs_rebuild_worst"}) {
    ASSERT_TRUE(headline.contains(key)) << key;
    if (headline[key].is_null()) {
      EXPECT_TRUE(headline[std::string(key) + "_reason"].is_string()) << key;
    } else {
      EXPECT_TRUE(headline[key].is_number()) << key;
    }
  }
  EXPECT_FALSE(json["timings"].empty());
  EXPECT_FALSE(json["balance"].empty());
  EXPECT_FALSE(json["bars"].empty());
  EXPECT_FALSE(json["deltas"].empty());
}

TEST(PlacementBenchTest, RefusesWhatItDoesNotKnow) {
  const auto binary = support::BinaryPath("placement_bench");
  ASSERT_OK(binary);
  support::ProcessOptions options;
  options.argv = {*binary, "--fast"};
  const auto process = support::Process::Start(options);
  ASSERT_OK(process);
  const auto ended = (*process)->Wait(absl::Seconds(60));
  ASSERT_OK(ended);
  EXPECT_EQ(ended->code, 2);
}

}  // namespace
}  // namespace warmring
