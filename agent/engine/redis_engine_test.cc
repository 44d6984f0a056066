#include "agent/engine/redis_engine.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

// What is told from outside about a Redis: which dumps it writes and reads, and that it is not
// there.

namespace warmring {
namespace {

TEST(RedisEngineTest, KnowsTheDumpFormatOfEachVersion) {
  EXPECT_EQ(RdbVersionOf("6.2.14"), 9u);
  EXPECT_EQ(RdbVersionOf("7.0.15"), 10u);
  EXPECT_EQ(RdbVersionOf("7.2.4"), 11u);
  EXPECT_EQ(RdbVersionOf("7.4.1"), 12u);
  EXPECT_EQ(RdbVersionOf("99.0.0"), 0u);
  EXPECT_EQ(RdbVersionOf(""), 0u);
}

TEST(RedisEngineTest, ReadsTheFormatOfAPayload) {
  // DUMP of the string "v" by Redis 7.0: type, length, value; version; checksum.
  const std::string payload = std::string("\x00\x01v\x0a\x00", 5) + "12345678";
  EXPECT_EQ(PayloadRdbVersion(payload), 10u);
  EXPECT_EQ(PayloadRdbVersion("short"), 0u);
  EXPECT_EQ(PayloadRdbVersion(""), 0u);
}

TEST(RedisEngineTest, AnEngineThatIsNotThereIsUnavailableAndNamed) {
  RedisEngine engine(RedisEngineOptions{.address = "127.0.0.1:9"});
  EXPECT_THAT(engine.Renew(), StatusIs(absl::StatusCode::kUnavailable, "127.0.0.1:9"));
  EngineEntry gone;
  gone.key = "k";
  gone.absent = true;
  EXPECT_THAT(engine.Apply(Id128{1, 1}, {gone}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RedisEngineTest, NothingToDoNeedsNoEngine) {
  RedisEngine engine(RedisEngineOptions{.address = "127.0.0.1:9"});
  EXPECT_OK(engine.Apply(Id128{1, 1}, {}));
  EXPECT_OK(engine.DumpKeys({}));
  EXPECT_OK(engine.DigestKeys({}));
}

}  // namespace
}  // namespace warmring
