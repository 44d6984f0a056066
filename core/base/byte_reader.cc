#include "core/base/byte_reader.h"

#include <fmt/format.h>

namespace warmring {

void ByteReader::Fail(std::string_view message) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(fmt::format("byte {}: {}", offset_, message));
  rest_ = {};
}

std::string_view ByteReader::Take(size_t bytes) {
  if (bytes > rest_.size()) {
    Fail(fmt::format("truncated: {} bytes are needed, {} are left", bytes, rest_.size()));
    return {};
  }
  std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  offset_ += bytes;
  return taken;
}

uint8_t ByteReader::Byte() {
  const std::string_view taken = Take(1);
  return taken.empty() ? uint8_t{0} : static_cast<uint8_t>(taken[0]);
}

bool ByteReader::Bool() {
  const uint8_t byte = Byte();
  if (byte > 1) Fail(fmt::format("{} where 0 or 1 is expected", byte));
  return byte == 1;
}

uint32_t ByteReader::Fixed32() {
  uint32_t value = 0;
  uint32_t shift = 0;
  for (char c : Take(4)) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(c)) << shift;
    shift += 8;
  }
  return value;
}

uint64_t ByteReader::Fixed64() {
  uint64_t value = 0;
  uint32_t shift = 0;
  for (char c : Take(8)) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(c)) << shift;
    shift += 8;
  }
  return value;
}

uint64_t ByteReader::Varint() {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    // The tenth byte has room for one bit.
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return ok() ? value : 0;
  }
  Fail("a varint does not fit 64 bits");
  return 0;
}

uint32_t ByteReader::Varint32() {
  const uint64_t value = Varint();
  if (value > UINT32_MAX) {
    Fail(fmt::format("{} does not fit 32 bits", value));
    return 0;
  }
  return static_cast<uint32_t>(value);
}

std::string ByteReader::String(std::string_view field, size_t max_bytes) {
  return std::string(Take(Count(field, max_bytes, 1)));
}

size_t ByteReader::Count(std::string_view field, size_t max, size_t min_item_bytes) {
  const uint64_t count = Varint();
  if (count > max) {
    Fail(fmt::format("{}: {} is over the limit of {}", field, count, max));
    return 0;
  }
  if (count > rest_.size() / min_item_bytes) {
    Fail(fmt::format("{}: truncated: {} items do not fit the {} bytes left", field, count,
                     rest_.size()));
    return 0;
  }
  return static_cast<size_t>(count);
}

absl::Status ByteReader::Finish() const {
  if (!status_.ok() || rest_.empty()) return status_;
  return absl::InvalidArgumentError(
      fmt::format("byte {}: {} bytes follow the end of the value", offset_, rest_.size()));
}

}  // namespace warmring
