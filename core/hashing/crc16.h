#pragma once

#include <cstdint>
#include <string_view>

namespace warmring {

// CRC16/XMODEM (polynomial 0x1021, initial value 0), from which Redis Cluster takes a key's slot.
// Any thread, total.
uint16_t Crc16(std::string_view bytes);

}  // namespace warmring
