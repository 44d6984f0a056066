// hash.json, tag.json and token.json: from bytes to points of hash space.

#include <set>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/hashing/key_hash.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kSanitySeed = 0x9e3779b185ebca8d;

// The bytes that xxHash's own sanity check hashes, so that its published values are among ours.
std::string SanityBuffer(size_t size) {
  std::string bytes;
  uint64_t state = 2654435761;
  while (bytes.size() < size) {
    bytes.push_back(static_cast<char>(state >> 56));
    state *= kSanitySeed;
  }
  return bytes;
}

Json HashCase(std::string_view bytes) {
  return {{"bytes", HexBytes(bytes)},
          {"hash", Hex(HashKey(HashSpec(), bytes))},
          {"seed", Hex(kSanitySeed)},
          {"seeded_hash", Hex(XXH3_64bits_withSeed(bytes.data(), bytes.size(), kSanitySeed))}};
}

// The same key under the functions of fleets that are adopted.
Json AdoptedCase(std::string_view bytes) {
  const auto point = [bytes](HashSpec::Function function) {
    return Hex(HashKey({function, false}, bytes));
  };
  return {{"bytes", HexBytes(bytes)},
          {"xxh64", point(HashSpec::Function::kXxh64)},
          {"murmur3", point(HashSpec::Function::kMurmur3)},
          {"ketama", point(HashSpec::Function::kKetama)},
          {"crc16", point(HashSpec::Function::kCrc16)}};
}

Json TokenCase(std::string_view hash_name, uint32_t index) {
  return {{"hash_name", HexBytes(hash_name)},
          {"index", index},
          {"token", Hex(DeriveToken(hash_name, index))}};
}

std::string EveryByte() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

}  // namespace

Json HashVectors() {
  // Each length up to 17 and both sides of each boundary where the algorithm changes its way.
  std::set<size_t> lengths = {24, 48, 80, 195, 403, 2240, 2367};
  for (size_t length = 0; length <= 17; ++length) lengths.insert(length);
  for (const size_t edge : {32u, 64u, 96u, 128u, 144u, 160u, 240u, 256u, 512u, 1024u, 2048u}) {
    for (const size_t length : {edge - 1, edge, edge + 1}) lengths.insert(length);
  }
  Json cases = Json::array();
  for (const size_t length : lengths) cases.push_back(HashCase(SanityBuffer(length)));
  for (const std::string_view key : {"a", "user:42", "session/0017", "\xc3\xa9t\xc3\xa9"}) {
    cases.push_back(HashCase(key));
  }
  cases.push_back(HashCase(std::string_view("\0", 1)));
  cases.push_back(HashCase(std::string(16, 'x')));
  cases.push_back(HashCase(EveryByte()));
  Json adopted = Json::array();
  for (size_t length = 0; length <= 40; ++length)
    adopted.push_back(AdoptedCase(SanityBuffer(length)));
  for (const size_t length : {63u, 64u, 65u, 200u})
    adopted.push_back(AdoptedCase(SanityBuffer(length)));
  for (const std::string_view key :
       {"123", "123456789", "user:42", "{user1000}.following", "foo{}{bar}", "\xe2\x98\x83"}) {
    adopted.push_back(AdoptedCase(key));
  }
  return {{"about", "The point of a key under each function, and XXH3 under a seed"},
          {"keys", cases},
          {"adopted", adopted}};
}

Json TagVectors() {
  HashSpec tags;
  tags.hash_tags = true;
  Json cases = Json::array();
  for (const std::string_view key : {"",
                                     "plain",
                                     "{user1000}.following",
                                     "{user1000}.followers",
                                     "foo{}{bar}",
                                     "foo{{bar}}zap",
                                     "foo{bar}{zap}",
                                     "}foo{bar",
                                     "}{a}",
                                     "{",
                                     "}",
                                     "{}",
                                     "{}a",
                                     "a{b",
                                     "a}b",
                                     "a{b}",
                                     "{a}b",
                                     "a{ }b",
                                     "x{\xff}y",
                                     "{a{b}c}",
                                     "{{}}",
                                     "a{b}c{d}e"}) {
    cases.push_back({{"key", HexBytes(key)},
                     {"tag", HexBytes(HashTag(key))},
                     {"hash", Hex(HashKey(tags, key))},
                     {"hash_without_tags", Hex(HashKey(HashSpec(), key))}});
  }
  const std::string_view nul("a{\0}b", 5);
  cases.push_back({{"key", HexBytes(nul)},
                   {"tag", HexBytes(HashTag(nul))},
                   {"hash", Hex(HashKey(tags, nul))},
                   {"hash_without_tags", Hex(HashKey(HashSpec(), nul))}});
  return {{"about", "The part of a key that is hashed when the keyspace has hash tags"},
          {"keys", cases}};
}

Json TokenVectors() {
  Json tokens = Json::array();
  for (const uint32_t index : {0u, 1u, 255u, 256u, 4095u, 65536u, UINT32_MAX}) {
    tokens.push_back(TokenCase("node-a", index));
  }
  // Joined without a separator and a fixed width these pairs would be one string each.
  tokens.push_back(TokenCase("host:1", 11));
  tokens.push_back(TokenCase("host:11", 1));
  tokens.push_back(TokenCase(std::string_view("a\0", 2), 0));
  tokens.push_back(TokenCase("a", 0));
  tokens.push_back(TokenCase("10.0.0.17:11211", 159));
  tokens.push_back(TokenCase(EveryByte().substr(0, 255), 7));

  Json nodes = Json::array();
  for (const std::string_view id : {"a", "b", "node-a", "cache-01", "cache-10"}) {
    nodes.push_back({{"id", id}, {"order_key", Hex(NodeOrderKey(id))}});
  }
  Json buckets = Json::array();
  for (const uint64_t bucket : {uint64_t{0}, uint64_t{1}, uint64_t{16383}, uint64_t{1048575}}) {
    // The empty id orders the buckets that need an owner whichever takes them.
    for (const std::string_view id : {"node-a", "node-b", ""}) {
      for (const uint32_t rank : {0u, 2u}) {
        buckets.push_back({{"bucket", bucket},
                           {"id", id},
                           {"rank", rank},
                           {"order_key", Hex(BucketOrderKey(bucket, id, rank))}});
      }
    }
  }
  return {{"about", "Tokens of virtual nodes, and the order of nodes and of buckets"},
          {"tokens", tokens},
          {"nodes", nodes},
          {"buckets", buckets}};
}

}  // namespace warmring
