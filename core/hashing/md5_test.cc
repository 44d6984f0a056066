#include "core/hashing/md5.h"

#include <string>

#include <gtest/gtest.h>

namespace warmring {
namespace {

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : Md5(bytes)) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

// RFC 1321, appendix A.5.
TEST(Md5Test, VectorsOfTheStandard) {
  EXPECT_EQ(Hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(Hex("a"), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(Hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(Hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(Hex("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(Hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(Hex("123456789012345678901234567890123456789012345678901234567890123456789012345678"
                "90"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

// MD5 of the digests, side by side, of "", "x", "xx", ... up to 200 bytes, by Python's hashlib:
// every length of the last block.
TEST(Md5Test, EveryLengthOfTheLastBlock) {
  std::string digests;
  for (size_t length = 0; length <= 200; ++length) {
    for (const uint8_t byte : Md5(std::string(length, 'x'))) {
      digests.push_back(static_cast<char>(byte));
    }
  }
  EXPECT_EQ(Hex(digests), "85a5e659ef84b20587f1e9a409ab70c7");
}

}  // namespace
}  // namespace warmring
