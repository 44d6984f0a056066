#include "core/hashing/murmur3.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace warmring {
namespace {

std::string Times(std::string_view bytes, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += bytes;
  return text;
}

std::string ByteRun(int first, int end) {
  std::string text;
  for (int byte = first; byte < end; ++byte) text.push_back(static_cast<char>(byte));
  return text;
}

// The vectors that the drivers of Cassandra publish with their tests.
TEST(CassandraTokenTest, VectorsOfTheDrivers) {
  EXPECT_EQ(CassandraToken("123"), -7468325962851647638);
  EXPECT_EQ(CassandraToken(Times(std::string_view("\x00\xff\x10\xfa\x99", 5), 10)),
            5837342703291459765);
  EXPECT_EQ(CassandraToken(Times("\xfe", 8)), -8927430733708461935);
  EXPECT_EQ(CassandraToken(Times("\x10", 8)), 1446172840243228796);
  EXPECT_EQ(CassandraToken("9223372036854775807"), 7162290910810015547);
}

// By the Python driver of Cassandra, whose implementations in Python and in C agree. Bytes above
// 0x7f in the last block are where Cassandra leaves Murmur3.
TEST(CassandraTokenTest, EveryLengthAndSignedBytes) {
  EXPECT_EQ(CassandraToken("a"), -8839064797231613815);
  EXPECT_EQ(CassandraToken("user:42"), -3674646904862786968);
  EXPECT_EQ(CassandraToken("\xff"), -4442228696663692417);
  EXPECT_EQ(CassandraToken("\x80\x81\xfe\xff"), -69413292277253336);
  EXPECT_EQ(CassandraToken("\xe2\x98\x83"), -5290748422970389790);
  EXPECT_EQ(CassandraToken(ByteRun(128, 143)), 63099782945186636);
  EXPECT_EQ(CassandraToken(ByteRun(240, 256)), -9084739235461062116);
  EXPECT_EQ(CassandraToken(ByteRun(225, 256)), -6986946148457157719);
  EXPECT_EQ(CassandraToken(std::string(15, 'x')), 2088934356530938522);
  EXPECT_EQ(CassandraToken(std::string(16, 'x')), 7551617026245346269);
  EXPECT_EQ(CassandraToken(std::string(17, 'x')), -2118831686519497069);
  EXPECT_EQ(CassandraToken(std::string(100, 'z')), 7478763804228709344);
}

TEST(CassandraTokenTest, TheEmptyKeyHasTheLowestToken) {
  EXPECT_EQ(CassandraToken(""), std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace warmring
