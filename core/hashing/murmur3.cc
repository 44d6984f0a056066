#include "core/hashing/murmur3.h"

#include <bit>
#include <limits>

#include "core/hashing/little_endian.h"

namespace warmring {
namespace {

constexpr size_t kBlockBytes = 16;
constexpr uint64_t kMultiplier1 = 0x87c37b91114253d5;
constexpr uint64_t kMultiplier2 = 0x4cf5ad432745937f;

uint64_t Scramble1(uint64_t word) { return std::rotl(word * kMultiplier1, 31) * kMultiplier2; }
uint64_t Scramble2(uint64_t word) { return std::rotl(word * kMultiplier2, 33) * kMultiplier1; }

uint64_t Finish(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccd;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

// Up to eight bytes of the last block, each widened with its sign as Java widens a byte.
uint64_t SignedTail(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<int64_t>(static_cast<signed char>(bytes[i]));
    word ^= static_cast<uint64_t>(byte) << (8 * i);
  }
  return word;
}

}  // namespace

int64_t CassandraToken(std::string_view key) {
  constexpr int64_t kMinimum = std::numeric_limits<int64_t>::min();
  if (key.empty()) return kMinimum;
  uint64_t h1 = 0;
  uint64_t h2 = 0;
  std::string_view rest = key;
  for (; rest.size() >= kBlockBytes; rest.remove_prefix(kBlockBytes)) {
    h1 ^= Scramble1(LoadLittleEndian<uint64_t>(rest.data()));
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= Scramble2(LoadLittleEndian<uint64_t>(rest.data() + 8));
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  if (rest.size() > 8) h2 ^= Scramble2(SignedTail(rest.substr(8)));
  h1 ^= Scramble1(SignedTail(rest.substr(0, 8)));
  h1 ^= key.size();
  h2 ^= key.size();
  h1 += h2;
  h2 += h1;
  const auto token = static_cast<int64_t>(Finish(h1) + Finish(h2));
  return token == kMinimum ? std::numeric_limits<int64_t>::max() : token;
}

}  // namespace warmring
