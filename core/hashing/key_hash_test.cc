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
