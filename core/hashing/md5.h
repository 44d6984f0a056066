#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace warmring {

// The MD5 digest of `bytes` (RFC 1321), which ketama rings are built from. It protects nothing:
// whoever wants two keys in one place finds them. Any thread, total, allocates nothing.
std::array<uint8_t, 16> Md5(std::string_view bytes);

}  // namespace warmring
