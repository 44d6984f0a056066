// The hash is a contract between languages: the values here were computed with the Python package
// xxhash, an independent binding, from the byte strings that key_hash.h promises.

#include "core/hashing/key_hash.h"

#include <string>

#include <gtest/gtest.h>

namespace warmring {
namespace {

TEST(KeyHashTest, Xxh3Vectors) {
  const HashSpec spec;
  const struct {
    std::string key;
    HashPoint hash;
  } vectors[] = {
      {"", 0x2d06800538d394c2},
      {"a", 0xe6c632b61e964e1f},
      {"user:42", 0x9fc1e605fa7174aa},
      {std::string("\x00\xff\x80"
                   "binary",
                   9),
       0x58386a866949a595},
      {std::string(16, 'x'), 0xdf76ff0d7f0d9edf},
      {std::string(17, 'x'), 0x89975e6b7d2f5a11},
      {std::string(241, 'z'), 0xc9b6e99de4449036},
      {std::string(1000, 'y'), 0x6a7df51df515dbab},
  };
  for (const auto& vector : vectors) {
    EXPECT_EQ(HashKey(spec, vector.key), vector.hash) << vector.key;
  }
}

TEST(KeyHashTest, HashTagIsTheRuleOfRedisCluster) {
  EXPECT_EQ(HashTag("{user1000}.following"), "user1000");
  EXPECT_EQ(HashTag("foo{}{bar}"), "foo{}{bar}");
  EXPECT_EQ(HashTag("foo{{bar}}zap"), "{bar");
  EXPECT_EQ(HashTag("foo{bar}{zap}"), "bar");
  EXPECT_EQ(HashTag("}foo{bar"), "}foo{bar");
  EXPECT_EQ(HashTag("no tag"), "no tag");
  EXPECT_EQ(HashTag("}{a}"), "a");
  EXPECT_EQ(HashTag(""), "");
}

TEST(KeyHashTest, HashTagsCountOnlyWhenTheSpecSaysSo) {
  HashSpec tags;
  tags.hash_tags = true;
  EXPECT_EQ(HashKey(tags, "{user1000}.following"), 0xb03c8988cdc1c874u);
  EXPECT_EQ(HashKey(tags, "x{user1000}y"), HashKey(tags, "user1000"));
  EXPECT_NE(HashKey(HashSpec(), "{user1000}.following"), 0xb03c8988cdc1c874u);
}

HashPoint Hash(HashSpec::Function function, std::string_view key) {
  return HashKey({function, false}, key);
}

TEST(KeyHashTest, FunctionsOfAdoptedFleets) {
  using F = HashSpec::Function;
  EXPECT_EQ(Hash(F::kXxh64, ""), 0xef46db3751d8e999u);
  EXPECT_EQ(Hash(F::kXxh64, "user:42"), 0xdc1fea7da8d2d1c2u);
  EXPECT_EQ(Hash(F::kXxh64, std::string(100, 'x')), 0x92f0de5a88a3c094u);
  EXPECT_EQ(Hash(F::kMurmur3, "123"), 0x185b2d1b0d667f6au);  // -7468325962851647638 + 2^63
  EXPECT_EQ(Hash(F::kMurmur3, ""), 0u);
  EXPECT_EQ(Hash(F::kKetama, "user:42"), 0x18dfda5600000000u);  // MD5: 56 da df 18 ...
  EXPECT_EQ(Hash(F::kCrc16, "123456789"), uint64_t{0x31c3} << 50);
  EXPECT_EQ(Hash(F::kCrc16, "a"), uint64_t{0x7c87 % 16384} << 50);
}

TEST(KeyHashTest, RedisClusterAlwaysHashesTheTag) {
  using F = HashSpec::Function;
  EXPECT_EQ(Hash(F::kCrc16, "{user1000}.following"), Hash(F::kCrc16, "user1000"));
  EXPECT_EQ(Hash(F::kCrc16, "{{x}}y"), Hash(F::kCrc16, "{x"));
  EXPECT_EQ(HashKey({F::kCrc16, true}, "{{x}}y"), Hash(F::kCrc16, "{x"));
  EXPECT_EQ(HashKey({F::kKetama, true}, "a{user:42}"), 0x18dfda5600000000u);
  EXPECT_NE(Hash(F::kKetama, "a{user:42}"), 0x18dfda5600000000u);
}

// A slot is the bucket of a directory of 14 bits.
TEST(KeyHashTest, PointsOfAdoptedPlacesKeepTheirOrder) {
  EXPECT_EQ(PointOfSlot(0), 0u);
  EXPECT_EQ(PointOfSlot(16383) >> (64 - 14), 16383u);
  EXPECT_EQ(PointOfToken(INT64_MIN), 0u);
  EXPECT_EQ(PointOfToken(-1), (uint64_t{1} << 63) - 1);
  EXPECT_EQ(PointOfToken(0), uint64_t{1} << 63);
  EXPECT_EQ(PointOfToken(INT64_MAX), UINT64_MAX);
  EXPECT_EQ(PointOfKetama(UINT32_MAX), 0xffffffff00000000u);
}

TEST(KeyHashTest, TokenVectors) {
  EXPECT_EQ(DeriveToken("node-a", 0), 0x8f812a1aa70f11f2u);
  EXPECT_EQ(DeriveToken("node-a", 1), 0xdc41db10a133c923u);
  EXPECT_EQ(DeriveToken("node-a", 4095), 0x9c178741d914bdc4u);
}

TEST(KeyHashTest, NameAndIndexDoNotRunTogether) {
  EXPECT_EQ(DeriveToken("host:1", 11), 0x8c4b379988f54defu);
  EXPECT_EQ(DeriveToken("host:11", 1), 0x205eafd26a7c32bbu);
}

TEST(KeyHashTest, OrderKeyVectors) {
  EXPECT_EQ(NodeOrderKey("node-a"), 0xdadea24aa12481feu);
  EXPECT_EQ(BucketOrderKey(0, "node-a", 0), 0x1c1f24c4cfaf5619u);
  EXPECT_EQ(BucketOrderKey(1, "node-a", 0), 0xc215cb249284ea2cu);
  EXPECT_EQ(BucketOrderKey(0, "node-b", 0), 0xe2a9ed09d376bc70u);
  EXPECT_EQ(BucketOrderKey(16383, "node-a", 2), 0x994852c6b6d7d054u);
}

}  // namespace
}  // namespace warmring
