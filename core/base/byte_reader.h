#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace warmring {

// Reads what ByteWriter wrote, from bytes that may be hostile. The first failure sticks: every
// later read returns zero or empty, so that a decoder may read a whole record and ask once. Lengths
// and counts are held against their limit and the bytes that are left before anything is allocated.
// Not thread-safe; the bytes must outlive the reader.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  uint8_t Byte();
  bool Bool();  // fails on anything but 0 and 1
  uint32_t Fixed32();
  uint64_t Fixed64();
  uint64_t Varint();
  uint32_t Varint32();  // fails above 2^32 - 1
  // Fails when the string is longer than `max_bytes`. `field` names it in the message.
  std::string String(std::string_view field, size_t max_bytes);
  // The length of a list; fails above `max`, or when the bytes left cannot hold so many items of at
  // least `min_item_bytes` each.
  size_t Count(std::string_view field, size_t max, size_t min_item_bytes);

  void Fail(std::string_view message);
  bool ok() const { return status_.ok(); }
  // Ok, or the first failure (InvalidArgument).
  const absl::Status& status() const { return status_; }
  // As status(), and InvalidArgument when bytes are left.
  absl::Status Finish() const;

 private:
  std::string_view Take(size_t bytes);

  std::string_view rest_;
  size_t offset_ = 0;
  absl::Status status_;
};

}  // namespace warmring
