#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/membership/node.h"

namespace warmring::bench {

// n00000, n00001, ...: sorted by number and by name.
inline std::string NodeName(uint32_t i) { return fmt::format("n{:05}", i); }

inline std::vector<std::string> NodeNames(uint32_t count) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) names.push_back(NodeName(i));
  return names;
}

inline Node MakeNode(uint32_t i) {
  Node node;
  node.id = NodeName(i);
  node.address = fmt::format("10.{}.{}.{}:6379", i >> 16, (i >> 8) & 0xff, i & 0xff);
  return node;
}

inline std::vector<Node> MakeNodes(uint32_t count) {
  std::vector<Node> nodes;
  for (uint32_t i = 0; i < count; ++i) nodes.push_back(MakeNode(i));
  return nodes;
}

}  // namespace warmring::bench
