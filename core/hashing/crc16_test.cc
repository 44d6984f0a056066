#include "core/hashing/crc16.h"

#include <string>

#include <gtest/gtest.h>

namespace warmring {
namespace {

TEST(Crc16Test, TheCheckValueOfXmodem) { EXPECT_EQ(Crc16("123456789"), 0x31c3); }

// By Python's binascii.crc_hqx, which is the same CRC.
TEST(Crc16Test, Vectors) {
  EXPECT_EQ(Crc16(""), 0);
  EXPECT_EQ(Crc16("a"), 0x7c87);
  EXPECT_EQ(Crc16("user:42"), 0x3e08);
  EXPECT_EQ(Crc16(std::string("\x00\xff\x80"
                              "binary",
                              9)),
            0x8c18);
  EXPECT_EQ(Crc16(std::string(100, 'x')), 0x8856);
}

}  // namespace
}  // namespace warmring
