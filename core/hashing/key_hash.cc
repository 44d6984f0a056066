#include "core/hashing/key_hash.h"

#include <string>

#include <xxhash.h>

#include "core/hashing/crc16.h"
#include "core/hashing/little_endian.h"
#include "core/hashing/md5.h"
#include "core/hashing/murmur3.h"

namespace warmring {
namespace {

template <typename Int>
void AppendLittleEndian(std::string& out, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

// The functions of adopted fleets, out of the way of the default one.
[[gnu::noinline]] HashPoint HashOfAdopted(HashSpec::Function function, std::string_view bytes) {
  switch (function) {
    case HashSpec::Function::kXxh3:
      break;
    case HashSpec::Function::kXxh64:
      return XXH64(bytes.data(), bytes.size(), 0);
    case HashSpec::Function::kMurmur3:
      return PointOfToken(CassandraToken(bytes));
    case HashSpec::Function::kKetama:
      return PointOfKetama(LoadLittleEndian<uint32_t>(Md5(bytes).data()));
    case HashSpec::Function::kCrc16:
      return PointOfSlot(Crc16(HashTag(bytes)) % kRedisSlots);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

std::string_view HashTag(std::string_view key) {
  size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

HashPoint HashKey(const HashSpec& spec, std::string_view key) {
  std::string_view hashed = spec.hash_tags ? HashTag(key) : key;
  if (spec.function != HashSpec::Function::kXxh3) [[unlikely]] {
    return HashOfAdopted(spec.function, hashed);
  }
  return XXH3_64bits(hashed.data(), hashed.size());
}

HashPoint PointOfToken(int64_t token) { return static_cast<uint64_t>(token) ^ (uint64_t{1} << 63); }

HashPoint PointOfSlot(uint32_t slot) { return HashPoint{slot} << (64 - kRedisSlotBits); }

HashPoint PointOfKetama(uint32_t value) { return HashPoint{value} << 32; }

HashPoint DeriveToken(std::string_view hash_name, uint32_t index) {
  std::string bytes(hash_name);
  bytes.push_back('\0');
  AppendLittleEndian(bytes, index);
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t NodeOrderKey(std::string_view id) { return XXH3_64bits(id.data(), id.size()); }

uint64_t BucketOrderKey(uint64_t bucket, std::string_view id, uint32_t rank) {
  uint64_t seed = XXH3_64bits_withSeed(id.data(), id.size(), rank);
  std::string bytes;
  AppendLittleEndian(bytes, bucket);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace warmring
