#pragma once

#include <cstddef>

namespace warmring {

// Integers as bytes in little-endian order, whatever the machine's is; compilers make it one move.
template <typename Int, typename Byte>
constexpr Int LoadLittleEndian(const Byte* bytes) {
  static_assert(sizeof(Byte) == 1);
  Int value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) {
    value |= static_cast<Int>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

template <typename Int>
constexpr void StoreLittleEndian(Int value, char* bytes) {
  for (size_t i = 0; i < sizeof(Int); ++i) {
    bytes[i] = static_cast<char>((value >> (8 * i)) & 0xff);
  }
}

}  // namespace warmring
