#include "core/placement/deliberate_ring.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace warmring {
namespace {

constexpr HashMeasure kWhole = HashMeasure{1} << 64;

// Members in node order, as indices.
std::vector<uint32_t> InNodeOrder(const std::vector<Member>& members,
                                  const std::vector<bool>& stays) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (stays[i]) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return members[a].Key() < members[b].Key(); });
  return order;
}

// An arc on its way. Its size fits 64 bits but for the whole space, hence the width.
struct Arc {
  HashPoint start = 0;
  HashMeasure size = 0;
  uint32_t from = kNobody;  // who owns it in the base
  uint32_t owner = kNobody;
};

HashPoint EndOf(const Arc& arc) { return arc.start + static_cast<HashPoint>(arc.size); }

class DeliberateReallocation {
 public:
  DeliberateReallocation(const Membership& base, const std::vector<Member>& members,
                         const std::vector<bool>& stays)
      : base_(base),
        members_(members),
        order_(InNodeOrder(members, stays)),
        owned_(members.size(), 0),
        rank_(members.size(), 0),
        largest_(members.size()) {
    for (uint32_t i = 0; i < order_.size(); ++i) {
      rank_[order_[i]] = i;
      weights_ += members_[order_[i]].node->weight_milli;
    }
    ReadArcs(stays);
  }

  Reallocation Run() {
    ReOwn();
    for (const uint32_t member : order_) {
      if (member >= base_.nodes().size()) Join(member);
    }
    return Result();
  }

 private:
  uint64_t WeightOf(uint32_t member) const { return members_[member].node->weight_milli; }

  // Adjacent arcs of one owner are one, so that a piece is cut from what is really contiguous.
  void ReadArcs(const std::vector<bool>& stays) {
    const std::vector<OwnedRange>& ranges = base_.ranges();
    for (size_t i = 0; i < ranges.size(); ++i) {
      const HashRange range = base_.RangeAt(i);
      const HashMeasure size = HashMeasure{range.SizeMinusOne()} + 1;
      if (!arcs_.empty() && arcs_.back().from == ranges[i].owner) {
        arcs_.back().size += size;
      } else {
        arcs_.push_back({range.start, size, ranges[i].owner, kNobody});
      }
    }
    for (size_t i = 0; i < arcs_.size(); ++i) {
      if (stays[arcs_[i].from]) Give(i, arcs_[i].from);
    }
  }

  void Give(size_t arc, uint32_t member) {
    arcs_[arc].owner = member;
    owned_[member] += arcs_[arc].size;
    // Of equal arcs the first on the ring.
    largest_[member].push({arcs_[arc].size, ~arcs_[arc].start, arc});
  }

  // Whether `a` is fuller than `b` relative to its weight; equal ones by node order.
  bool Fuller(uint32_t a, uint32_t b) const {
    // 64 bits of measure and 20 of weight: the product fits.
    const HashMeasure left = owned_[a] * WeightOf(b);
    const HashMeasure right = owned_[b] * WeightOf(a);
    return left != right ? left > right : rank_[a] < rank_[b];
  }

  void ReOwn() {
    std::vector<size_t> orphans;
    for (size_t i = 0; i < arcs_.size(); ++i) {
      if (arcs_[i].owner == kNobody) orphans.push_back(i);
    }
    if (orphans.empty()) return;
    std::sort(orphans.begin(), orphans.end(), [&](size_t a, size_t b) {
      return arcs_[a].size != arcs_[b].size ? arcs_[a].size > arcs_[b].size
                                            : arcs_[a].start < arcs_[b].start;
    });
    const auto emptier_is_better = [this](uint32_t a, uint32_t b) { return Fuller(a, b); };
    std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(emptier_is_better)> emptiest(
        emptier_is_better);
    // Those that join take their share afterwards, from those that stay if there are any.
    const auto joins = [this](uint32_t member) { return member >= base_.nodes().size(); };
    const bool all_join = std::all_of(order_.begin(), order_.end(), joins);
    for (const uint32_t member : order_) {
      if (all_join || !joins(member)) emptiest.push(member);
    }
    for (const size_t arc : orphans) {
      const uint32_t member = emptiest.top();
      emptiest.pop();
      Give(arc, member);
      emptiest.push(member);
    }
  }

  void Join(uint32_t taker) {
    const HashMeasure target = kWhole * WeightOf(taker) / weights_;
    const uint32_t pieces = TokensOf(base_.spec(), *members_[taker].node);
    const auto fuller_is_better = [this](uint32_t a, uint32_t b) { return Fuller(b, a); };
    std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(fuller_is_better)> fullest(
        fuller_is_better);
    for (const uint32_t member : order_) {
      if (member != taker && owned_[member] > 0) fullest.push(member);
    }
    for (uint32_t left = pieces; left > 0 && owned_[taker] < target && !fullest.empty(); --left) {
      const uint32_t donor = fullest.top();
      fullest.pop();
      const HashMeasure missing = target - owned_[taker];
      Cut(donor, taker, (missing + left - 1) / left);
      if (owned_[donor] > 0) fullest.push(donor);
    }
  }

  // Takes the beginning of the donor's largest arc.
  void Cut(uint32_t donor, uint32_t taker, HashMeasure piece) {
    const size_t arc = largest_[donor].top().arc;
    largest_[donor].pop();
    owned_[donor] -= arcs_[arc].size;
    if (arcs_[arc].size <= piece) {
      Give(arc, taker);
      return;
    }
    arcs_.push_back({arcs_[arc].start, piece, arcs_[arc].from, kNobody});
    arcs_[arc].start += static_cast<HashPoint>(piece);
    arcs_[arc].size -= piece;
    Give(arc, donor);
    Give(arcs_.size() - 1, taker);
  }

  Reallocation Result() const {
    Reallocation result;
    Flows flows;
    for (const Arc& arc : arcs_) {
      if (arc.from == arc.owner) continue;
      flows[{arc.from, arc.owner}].push_back({arc.start, EndOf(arc)});
      for (const HashPoint boundary : {arc.start, EndOf(arc)}) {
        const bool present = base_.ranges()[base_.RangeIndexOf(boundary)].end == boundary;
        if (!present) result.splits.push_back(boundary);
      }
    }
    std::sort(result.splits.begin(), result.splits.end());
    result.splits.erase(std::unique(result.splits.begin(), result.splits.end()),
                        result.splits.end());
    result.moves = MovesOf(flows, members_);
    return result;
  }

  struct BySize {
    HashMeasure size = 0;
    HashPoint first = 0;
    size_t arc = 0;
    bool operator<(const BySize& other) const {
      return size != other.size ? size < other.size : first < other.first;
    }
  };

  const Membership& base_;
  const std::vector<Member>& members_;
  const std::vector<uint32_t> order_;  // who is there afterwards, in node order
  uint64_t weights_ = 0;
  std::vector<Arc> arcs_;
  std::vector<HashMeasure> owned_;                    // by member
  std::vector<uint32_t> rank_;                        // place in order_, by member
  std::vector<std::priority_queue<BySize>> largest_;  // arcs by member
};

}  // namespace

std::vector<OwnedRange> InitialDeliberateRing(const KeyspaceSpec& spec,
                                              const std::vector<Member>& members, Epoch epoch) {
  const std::vector<uint32_t> order = InNodeOrder(members, std::vector<bool>(members.size(), true));
  uint64_t weights = 0;
  uint32_t rounds = 0;
  for (const Member& member : members) {
    weights += member.node->weight_milli;
    rounds = std::max(rounds, TokensOf(spec, *member.node));
  }
  std::vector<OwnedRange> ranges;
  HashMeasure at = 0;
  // The first piece of a share takes what its division leaves over, and the last node what the
  // division of the space does.
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const uint32_t member : order) {
      const uint32_t pieces = TokensOf(spec, *members[member].node);
      if (round >= pieces) continue;
      const HashMeasure share = kWhole * members[member].node->weight_milli / weights;
      at += share / pieces + (round == 0 ? share % pieces : 0);
      ranges.push_back({static_cast<HashPoint>(at - 1), member, epoch});
    }
  }
  ranges.back().end = UINT64_MAX;
  return ranges;
}

Reallocation ReallocateDeliberateRing(const Membership& base, const std::vector<Member>& members,
                                      const std::vector<bool>& stays) {
  return DeliberateReallocation(base, members, stays).Run();
}

}  // namespace warmring
