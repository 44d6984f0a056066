#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace warmring {

// Appends numbers and strings to a byte string in the form that ByteReader reads: fixed-width
// numbers little-endian, varints in LEB128, strings and lists with a varint length in front.
// Not thread-safe.
class ByteWriter {
 public:
  ByteWriter() = default;
  // Instead of keeping all bytes, hands them to `drain` piece by piece, in order: at Append when
  // there are kDrainBytes, and at Drain.
  explicit ByteWriter(std::function<void(std::string_view)> drain) : drain_(std::move(drain)) {}

  static constexpr size_t kDrainBytes = size_t{64} << 10;

  void Byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void Bool(bool value) { Byte(value ? 1 : 0); }
  void Fixed32(uint32_t value);
  void Fixed64(uint64_t value);
  void Varint(uint64_t value);
  void String(std::string_view value);
  // Bytes as they are.
  void Append(std::string_view bytes);
  void Reserve(size_t bytes) { bytes_.reserve(bytes_.size() + (drain_ ? 0 : bytes)); }
  // REQUIRES: made with `drain`.
  void Drain();

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::function<void(std::string_view)> drain_;
};

}  // namespace warmring
