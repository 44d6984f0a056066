#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "core/base/ids.h"

namespace warmring {

// A member of a keyspace. Plain value.
struct Node {
  static constexpr uint32_t kMinWeightMilli = 10;         // 0.01
  static constexpr uint32_t kMaxWeightMilli = 1'000'000;  // 1000
  static constexpr size_t kMaxAddressBytes = 255;
  static constexpr size_t kMaxHashNameBytes = 255;
  static constexpr size_t kMaxZoneBytes = 255;
  static constexpr size_t kMaxLabels = 64;
  static constexpr size_t kMaxLabelBytes = 256;  // of a key, and of a value

  NodeId id;
  std::string hash_name;  // bytes that its tokens are derived from; empty means the id
  std::string address;    // host:port of the data service, what clients dial
  uint32_t weight_milli = 1000;
  std::string zone;  // printable ASCII, like the keys and values of the labels
  std::map<std::string, std::string> labels;

  const std::string& HashName() const { return hash_name.empty() ? id : hash_name; }
  friend bool operator==(const Node&, const Node&) = default;
};

// Ok, or InvalidArgument naming the field (prefixed with `field`), the value and the bound.
absl::Status ValidateNode(std::string_view field, const Node& node);

// Ok for "host:port" and "[v6]:port" with a port in 1..65535, where host is a DNS name or an IPv4
// address; else InvalidArgument naming `field`, the value and what is wrong with it.
absl::Status ValidateAddress(std::string_view field, std::string_view address);

}  // namespace warmring
