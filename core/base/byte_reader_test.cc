// What was written is read back; what was not written fails before anything is allocated.

#include "core/base/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/byte_writer.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

using absl::StatusCode;

TEST(ByteReaderTest, NumbersAreLittleEndianAndVarintsAreLeb128) {
  ByteWriter out;
  out.Byte(0xab);
  out.Fixed32(0x01020304);
  out.Fixed64(0x0102030405060708);
  out.Varint(300);
  out.String("hi");
  EXPECT_EQ(out.Take(),
            std::string("\xab\x04\x03\x02\x01\x08\x07\x06\x05\x04\x03\x02\x01\xac\x02\x02hi"));
}

TEST(ByteReaderTest, ReadsWhatWasWritten) {
  const std::vector<uint64_t> numbers = {
      0, 1, 127, 128, 16383, 16384, UINT32_MAX, 1ull << 63, UINT64_MAX, 0x7fffull, 42};
  ByteWriter out;
  for (const uint64_t number : numbers) {
    out.Varint(number);
    out.Fixed64(number);
  }
  out.Bool(true);
  out.Bool(false);
  out.Byte(255);
  out.Fixed32(UINT32_MAX);
  out.Varint(UINT32_MAX);
  out.String(std::string("a\0b", 3));
  out.String("");
  const std::string bytes = out.Take();
  ByteReader in(bytes);
  for (const uint64_t number : numbers) {
    EXPECT_EQ(in.Varint(), number);
    EXPECT_EQ(in.Fixed64(), number);
  }
  EXPECT_TRUE(in.Bool());
  EXPECT_FALSE(in.Bool());
  EXPECT_EQ(in.Byte(), 255);
  EXPECT_EQ(in.Fixed32(), UINT32_MAX);
  EXPECT_EQ(in.Varint32(), UINT32_MAX);
  EXPECT_EQ(in.String("s", 3), std::string("a\0b", 3));
  EXPECT_EQ(in.String("s", 3), "");
  EXPECT_OK(in.Finish());
}

TEST(ByteReaderTest, TruncationFailsAndSticks) {
  ByteReader in("\x01\x02");
  EXPECT_EQ(in.Fixed32(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.Byte(), 0);
  EXPECT_EQ(in.Varint(), 0u);
  EXPECT_EQ(in.String("s", 10), "");
  EXPECT_THAT(in.Finish(), StatusIs(StatusCode::kInvalidArgument,
                                    "byte 0: truncated: 4 bytes are needed, 2 are left"));
}

TEST(ByteReaderTest, UnfinishedVarintReadsAsZero) {
  ByteReader in("\x81");
  EXPECT_EQ(in.Varint(), 0u);
  EXPECT_FALSE(in.ok());
}

TEST(ByteReaderTest, VarintOver64BitsFails) {
  ByteReader ten_bits_too_many("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  ten_bits_too_many.Varint();
  EXPECT_THAT(ten_bits_too_many.status(), StatusIs(StatusCode::kInvalidArgument, "64 bits"));
  ByteReader endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  endless.Varint();
  EXPECT_THAT(endless.status(), StatusIs(StatusCode::kInvalidArgument, "64 bits"));
  ByteReader too_wide("\x80\x80\x80\x80\x10");
  EXPECT_EQ(too_wide.Varint32(), 0u);
  EXPECT_THAT(too_wide.status(), StatusIs(StatusCode::kInvalidArgument, "4294967296"));
}

TEST(ByteReaderTest, CountsAreHeldAgainstLimitAndBytesLeft) {
  ByteReader over("\x0b");
  EXPECT_EQ(over.Count("nodes", 10, 1), 0u);
  EXPECT_THAT(over.status(),
              StatusIs(StatusCode::kInvalidArgument, "nodes: 11 is over the limit of 10"));
  ByteReader starved("\x03xxxxx");
  EXPECT_EQ(starved.Count("nodes", 10, 2), 0u);
  EXPECT_THAT(starved.status(), StatusIs(StatusCode::kInvalidArgument, "nodes: truncated"));
  ByteReader enough("\x03xxxxxx");
  EXPECT_EQ(enough.Count("nodes", 10, 2), 3u);
  ByteReader huge("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(huge.String("name", SIZE_MAX), "");
  EXPECT_FALSE(huge.ok());
}

TEST(ByteReaderTest, BoolIsZeroOrOneAndNothingMayFollow) {
  ByteReader two("\x02");
  EXPECT_FALSE(two.Bool());
  EXPECT_FALSE(two.ok());
  ByteReader trailing("\x01\x01");
  EXPECT_TRUE(trailing.Bool());
  EXPECT_THAT(trailing.Finish(), StatusIs(StatusCode::kInvalidArgument, "1 bytes follow"));
}

}  // namespace
}  // namespace warmring
