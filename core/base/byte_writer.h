#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace warmring {

// Appends numbers and strings to a byte string in the form that ByteReader reads: fixed-width
// numbers little-endian, varints in LEB128, strings and lists with a varint length in front.
// Not thread-safe.
class ByteWriter {
 public:
  void Byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void Bool(bool value) { Byte(value ? 1 : 0); }
  void Fixed32(uint32_t value);
  void Fixed64(uint64_t value);
  void Varint(uint64_t value);
  void String(std::string_view value);
  void Reserve(size_t bytes) { bytes_.reserve(bytes_.size() + bytes); }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace warmring
