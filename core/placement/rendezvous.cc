#include "core/placement/rendezvous.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "core/base/hash_range.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"
#include "core/placement/directory_board.h"
#include "core/placement/directory_targets.h"

namespace warmring {
namespace {

using Wide = HashMeasure;

constexpr uint64_t kLog2OfE = 0xb8aa3b295c17f0bc;  // in units of 2^-63

constexpr std::array<uint64_t, 256> MakeLog2Table() {
  std::array<uint64_t, 256> table{};
  for (uint64_t i = 0; i < table.size(); ++i) {
    uint64_t z = (256 + i) << 55;
    for (int bit = 0; bit < 48; ++bit) {
      const Wide w = (Wide{z} * z) >> 63;
      const bool one = (w >> 64) != 0;
      table[i] = table[i] << 1 | (one ? 1 : 0);
      z = static_cast<uint64_t>(one ? w >> 1 : w);
    }
  }
  return table;
}
constexpr std::array<uint64_t, 256> kLog2Table = MakeLog2Table();

uint64_t MulHigh(uint64_t a, uint64_t b) { return static_cast<uint64_t>((Wide{a} * b) >> 64); }

struct Candidate {
  uint32_t node = 0;  // index in Directory::nodes
  uint64_t weight = 1;
  uint32_t domain = 0;
  uint64_t order = 0;
  BucketOrder hash;
};

struct Bid {
  uint64_t cost = 0;  // to be divided by the candidate's weight
  const Candidate* candidate = nullptr;
};

// `a` is ahead of `b`. Candidates stand in the order that breaks ties.
bool IsAhead(const Bid& a, const Bid& b) {
  const Wide left = Wide{a.cost} * b.candidate->weight;
  const Wide right = Wide{b.cost} * a.candidate->weight;
  return left != right ? left < right : a.candidate < b.candidate;
}

void InsertSorted(std::vector<Bid>& bids, const Bid& bid) {
  bids.insert(std::upper_bound(bids.begin(), bids.end(), bid, IsAhead), bid);
}

// Keeps in `bids` the first `ranks` of all bids offered, no domain more often than its depth.
void Offer(const Bid& bid, uint32_t ranks, uint32_t depth, std::vector<Bid>& bids) {
  uint32_t same = 0;
  size_t last_same = 0;
  for (size_t i = 0; i < bids.size(); ++i) {
    if (bids[i].candidate->domain != bid.candidate->domain) continue;
    ++same;
    last_same = i;
  }
  if (same < depth && bids.size() < ranks) {
    InsertSorted(bids, bid);
    return;
  }
  // Whom it would displace: the last of its own domain if that is full, else the last of all.
  const size_t displaced = same < depth ? bids.size() - 1 : last_same;
  if (!IsAhead(bid, bids[displaced])) return;
  bids.erase(bids.begin() + static_cast<std::ptrdiff_t>(displaced));
  InsertSorted(bids, bid);
}

}  // namespace

uint64_t NegativeLog2(uint64_t u) {
  if (u == UINT64_MAX) return 0;
  const uint64_t x = u + 1;
  const auto n = static_cast<uint64_t>(std::countl_zero(x));
  const uint64_t m = x << n;
  const uint64_t i = (m >> 55) & 0xff;
  const uint64_t t = ((m - ((256 + i) << 55)) << 9) / (256 + i);
  const uint64_t t2 = MulHigh(t, t);
  const uint64_t t3 = MulHigh(t2, t);
  const uint64_t t4 = MulHigh(t2, t2);
  const uint64_t t5 = MulHigh(t4, t);
  const uint64_t y = t - t2 / 2 + t3 / 3 - t4 / 4 + t5 / 5;
  return ((n + 1) << 48) - kLog2Table[i] - (MulHigh(y, kLog2OfE) >> 15);
}

absl::StatusOr<Directory> AllocateByRendezvous(const DirectoryShape& shape,
                                               const std::vector<DirectoryNode>& nodes) {
  RETURN_IF_ERROR(ValidateDirectoryInput(shape, nodes));
  RETURN_IF_ERROR(ValidateDomains(shape, nodes));
  Directory directory{shape, nodes, {}};
  std::sort(directory.nodes.begin(), directory.nodes.end(),
            [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
  const DomainNumbers domains = NumberDomains(directory.nodes);
  const TargetProblem natural = NaturalTargets(shape, directory.nodes);
  const auto ranks = static_cast<uint32_t>(natural.slots >> shape.bits);

  std::vector<Candidate> candidates;
  for (uint32_t i = 0; i < directory.nodes.size(); ++i) {
    const DirectoryNode& node = directory.nodes[i];
    candidates.push_back(
        {i, node.weight_milli, domains.of_node[i], NodeOrderKey(node.id), BucketOrder(node.id, 0)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.order, a.node) < std::tie(b.order, b.node);
  });

  directory.owner.assign(shape.slots(), Directory::kNoNode);
  std::vector<Bid> bids;
  for (uint32_t bucket = 0; bucket < shape.buckets(); ++bucket) {
    bids.clear();
    for (const Candidate& candidate : candidates) {
      const auto depth = static_cast<uint32_t>(natural.domain_caps[candidate.domain] >> shape.bits);
      Offer({NegativeLog2(candidate.hash.KeyOf(bucket)), &candidate}, ranks, depth, bids);
    }
    for (uint32_t r = 0; r < ranks; ++r) {
      directory.owner[size_t{bucket} * shape.ranks + r] = bids[r].candidate->node;
    }
  }
  return directory;
}

}  // namespace warmring
