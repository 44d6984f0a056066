#include "core/base/byte_writer.h"

namespace warmring {

void ByteWriter::Fixed32(uint32_t value) {
  char out[4];
  for (size_t i = 0; i < sizeof(out); ++i) out[i] = static_cast<char>((value >> (8 * i)) & 0xff);
  bytes_.append(out, sizeof(out));
}

void ByteWriter::Fixed64(uint64_t value) {
  char out[8];
  for (size_t i = 0; i < sizeof(out); ++i) out[i] = static_cast<char>((value >> (8 * i)) & 0xff);
  bytes_.append(out, sizeof(out));
}

void ByteWriter::Varint(uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  bytes_.push_back(static_cast<char>(value));
}

void ByteWriter::String(std::string_view value) {
  Varint(value.size());
  bytes_.append(value);
}

void ByteWriter::Append(std::string_view bytes) {
  bytes_.append(bytes);
  if (drain_ && bytes_.size() >= kDrainBytes) Drain();
}

void ByteWriter::Drain() {
  drain_(bytes_);
  bytes_.clear();
}

}  // namespace warmring
