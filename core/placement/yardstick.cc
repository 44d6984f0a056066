#include "core/placement/yardstick.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/hash_range.h"
#include "core/hashing/key_hash.h"

namespace warmring {
namespace {

constexpr double kWholeSpace = 18446744073709551616.0;  // 2^64

double WeightOf(const std::vector<Node>& nodes) {
  double weight = 0;
  for (const Node& node : nodes) weight += node.weight_milli;
  return weight;
}

// A preview is worked out where leases are granted, so that it may take milliseconds only; more
// tokens than these in all say nothing more.
constexpr uint64_t kMaxTokens = uint64_t{1} << 16;

struct Token {
  HashPoint at = 0;
  const NodeId* owner = nullptr;
};
using Ring = std::vector<Token>;

// REQUIRES: not empty. The owner of a piece that ends at `point`.
const NodeId& OwnerAt(const Ring& ring, HashPoint point) {
  const auto token = std::lower_bound(ring.begin(), ring.end(), point,
                                      [](const Token& t, HashPoint p) { return t.at < p; });
  return *(token == ring.end() ? ring.begin() : token)->owner;
}

Ring PlainRing(const std::vector<Node>& nodes, uint64_t tokens_per_node) {
  Ring ring;
  for (const Node& node : nodes) {
    const uint64_t count = (tokens_per_node * node.weight_milli + 500) / 1000;
    for (uint32_t i = 0; i < std::max<uint64_t>(count, 1); ++i) {
      ring.push_back({DeriveToken(node.HashName(), i), &node.id});
    }
  }
  std::sort(ring.begin(), ring.end(), [](const Token& a, const Token& b) {
    return a.at != b.at ? a.at < b.at : *a.owner < *b.owner;
  });
  return ring;
}

uint64_t TokensFor(const std::vector<Node>& nodes) {
  return static_cast<uint64_t>(kMaxTokens * 1000.0 / WeightOf(nodes));
}

}  // namespace

double IdealShare(const std::vector<Node>& before, const std::vector<Node>& after) {
  std::map<NodeId, double> ideal;
  const double weight_before = WeightOf(before);
  const double weight_after = WeightOf(after);
  for (const Node& node : after) ideal[node.id] += node.weight_milli / weight_after;
  for (const Node& node : before) ideal[node.id] -= node.weight_milli / weight_before;
  double moved = 0;
  for (const auto& [id, gain] : ideal) moved += std::max(0.0, gain);
  return moved;
}

// A hash stays when its old place i and its new place j hold the same node, and i and j occur
// together exactly when they agree modulo gcd(N, M), once in lcm(N, M) hashes.
double ModuloShare(const std::vector<Node>& before, const std::vector<Node>& after) {
  std::map<NodeId, size_t> old_place;
  for (size_t i = 0; i < before.size(); ++i) old_place[before[i].id] = i;
  std::vector<const Node*> order;
  for (const Node& node : after) order.push_back(&node);
  std::stable_sort(order.begin(), order.end(), [&](const Node* a, const Node* b) {
    const auto at = [&](const Node* node) {
      const auto place = old_place.find(node->id);
      return place == old_place.end() ? before.size() : place->second;
    };
    return at(a) < at(b);
  });
  const size_t n = before.size();
  const size_t gcd = std::gcd(n, order.size());
  size_t stays = 0;
  for (size_t j = 0; j < order.size(); ++j) {
    const auto place = old_place.find(order[j]->id);
    if (place != old_place.end() && place->second % gcd == j % gcd) ++stays;
  }
  return 1.0 - static_cast<double>(stays) / static_cast<double>(std::lcm(n, order.size()));
}

// The boundaries of both rings cut the space into pieces with one owner before and one after.
double PlainRingShare(const std::vector<Node>& before, const std::vector<Node>& after) {
  const uint64_t tokens =
      std::min({uint64_t{kPlainRingTokens}, TokensFor(before), TokensFor(after)});
  const Ring old_ring = PlainRing(before, tokens);
  const Ring new_ring = PlainRing(after, tokens);
  std::vector<HashPoint> ends;
  for (const Ring* ring : {&old_ring, &new_ring}) {
    for (const Token& token : *ring) ends.push_back(token.at);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  HashMeasure moved = 0;
  HashPoint start = ends.back();
  for (const HashPoint end : ends) {
    if (OwnerAt(old_ring, end) != OwnerAt(new_ring, end)) {
      moved += HashMeasure{HashRange{start, end}.SizeMinusOne()} + 1;
    }
    start = end;
  }
  return static_cast<double>(moved) / kWholeSpace;
}

}  // namespace warmring
