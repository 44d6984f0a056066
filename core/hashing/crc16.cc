#include "core/hashing/crc16.h"

#include <array>

namespace warmring {
namespace {

constexpr std::array<uint16_t, 256> MakeTable() {
  std::array<uint16_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}

constexpr std::array<uint16_t, 256> kTable = MakeTable();

}  // namespace

uint16_t Crc16(std::string_view bytes) {
  uint32_t crc = 0;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    crc = ((crc << 8) & 0xffff) ^ kTable[(crc >> 8) ^ byte];
  }
  return static_cast<uint16_t>(crc);
}

}  // namespace warmring
