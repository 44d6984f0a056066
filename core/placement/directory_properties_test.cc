#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/placement/directory_allocator.h"
#include "core/placement/directory_targets.h"

// What holds of every directory, whatever its nodes and its history: drawn at random, with the seed
// printed at the start of the program.

namespace warmring {
namespace {

std::vector<DirectoryNode> SortedById(std::vector<DirectoryNode> nodes) {
  std::sort(nodes.begin(), nodes.end(),
            [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
  return nodes;
}

DirectoryNode DrawNode(int number, int zones) {
  DirectoryNode node;
  node.id = fmt::format("n{}", number);
  const bool equal = *rc::gen::arbitrary<bool>();
  node.weight_milli = equal ? 1000 : *rc::gen::inRange<uint32_t>(1, 8000);
  if (zones > 0) node.domain = fmt::format("zone-{}", *rc::gen::inRange(0, zones));
  return node;
}

// A fleet of at least one node, in no order.
std::vector<DirectoryNode> DrawNodes(int max_nodes, int zones) {
  const int count = *rc::gen::inRange(1, max_nodes + 1);
  std::vector<DirectoryNode> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(DrawNode(i, zones));
  return nodes;
}

// 0 zones: each node is a domain of its own.
int DrawZones() { return *rc::gen::element(0, 0, 2, 3, 5); }

bool IsFeasible(const DirectoryShape& shape, const std::vector<DirectoryNode>& nodes) {
  return NumberDomains(nodes).count >= shape.ranks;
}

DirectoryShape DrawShape(uint32_t max_bits, const std::vector<DirectoryNode>& nodes) {
  DirectoryShape shape;
  shape.bits = *rc::gen::inRange<uint32_t>(0, max_bits + 1);
  shape.ranks = *rc::gen::inRange<uint32_t>(1, 5);
  shape.strict = IsFeasible(shape, nodes) && *rc::gen::arbitrary<bool>();
  return shape;
}

// The next fleet: some leave, some come, some change weight or domain.
std::vector<DirectoryNode> DrawChange(std::vector<DirectoryNode> nodes, int next_id, int zones) {
  if (*rc::gen::arbitrary<bool>()) nodes.push_back(DrawNode(next_id, zones));
  if (*rc::gen::inRange(0, 4) == 0) nodes.push_back(DrawNode(next_id + 1, zones));
  if (nodes.size() > 1 && *rc::gen::arbitrary<bool>()) {
    nodes.erase(nodes.begin() +
                *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(nodes.size())));
  }
  if (*rc::gen::inRange(0, 3) == 0) {
    nodes[*rc::gen::inRange<size_t>(0, nodes.size())].weight_milli =
        *rc::gen::inRange<uint32_t>(1, 8000);
  }
  if (zones > 0 && *rc::gen::inRange(0, 4) == 0) {
    nodes[*rc::gen::inRange<size_t>(0, nodes.size())].domain =
        fmt::format("zone-{}", *rc::gen::inRange(0, zones));
  }
  return nodes;
}

Directory Must(const absl::StatusOr<Directory>& directory) {
  RC_ASSERT(directory.ok());
  const absl::Status valid = ValidateDirectory(*directory);
  if (!valid.ok()) RC_FAIL(std::string(valid.message()));
  return *directory;
}

// Valid, without a violation where there are enough domains, every node within one of its share and
// every rank within one of its part of that.
void CheckBalanced(const Directory& directory) {
  if (IsFeasible(directory.shape, directory.nodes)) RC_ASSERT(CountViolations(directory) == 0u);
  const TargetProblem natural = NaturalTargets(directory.shape, directory.nodes);
  const std::vector<Ratio> shares = FillShares(natural);
  const std::vector<uint64_t> slots = SlotsPerNode(directory, std::nullopt);
  const uint64_t ranks = natural.slots >> directory.shape.bits;
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint64_t floor = shares[i].numerator / shares[i].denominator;
    const bool whole = shares[i].numerator % shares[i].denominator == 0;
    RC_ASSERT(slots[i] >= floor);
    RC_ASSERT(slots[i] <= floor + (whole ? 0 : 1));
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    const std::vector<uint64_t> at_rank = SlotsPerNode(directory, r);
    for (size_t i = 0; i < slots.size(); ++i) {
      RC_ASSERT(at_rank[i] >= slots[i] / ranks);
      RC_ASSERT(at_rank[i] <= (slots[i] + ranks - 1) / ranks);
    }
  }
}

RC_GTEST_PROP(DirectoryProperty, ANewDirectoryIsBalanced, ()) {
  const std::vector<DirectoryNode> nodes = DrawNodes(12, DrawZones());
  CheckBalanced(Must(Allocate(DrawShape(8, nodes), nodes)));
}

RC_GTEST_PROP(DirectoryProperty, EveryChangeKeepsBalance, ()) {
  const int zones = DrawZones();
  std::vector<DirectoryNode> nodes = DrawNodes(10, zones);
  const DirectoryShape shape = DrawShape(8, nodes);
  Directory directory = Must(Allocate(shape, nodes));
  for (int change = 0; change < 6; ++change) {
    std::vector<DirectoryNode> next = DrawChange(nodes, 100 + 2 * change, zones);
    if (shape.strict && !IsFeasible(shape, next)) continue;
    nodes = std::move(next);
    directory = Must(Reallocate(directory, nodes));
    CheckBalanced(directory);
  }
}

RC_GTEST_PROP(DirectoryProperty, TheOrderOfNodesDoesNotMatter, ()) {
  const int zones = DrawZones();
  const std::vector<DirectoryNode> nodes = DrawNodes(10, zones);
  const DirectoryShape shape = DrawShape(6, nodes);
  const std::vector<DirectoryNode> next = DrawChange(nodes, 100, zones);
  RC_PRE(!shape.strict || IsFeasible(shape, next));
  const Directory base = Must(Allocate(shape, nodes));
  RC_ASSERT(Must(Allocate(shape, SortedById(nodes))) == base);
  const Directory after = Must(Reallocate(base, next));
  std::vector<DirectoryNode> reversed = next;
  std::reverse(reversed.begin(), reversed.end());
  RC_ASSERT(Must(Reallocate(base, reversed)) == after);
  RC_ASSERT(Must(Reallocate(base, SortedById(next))) == after);
}

RC_GTEST_PROP(DirectoryProperty, WithoutAChangeNothingMoves, ()) {
  const std::vector<DirectoryNode> nodes = DrawNodes(12, DrawZones());
  const Directory base = Must(Allocate(DrawShape(8, nodes), nodes));
  RC_ASSERT(Must(Reallocate(base, nodes)) == base);
}

// One rank: a node gains or loses, never both; who loses had more than its new share, and who stays
// gains only if it had less.
RC_GTEST_PROP(DirectoryProperty, OnlyDonorsAboveTargetLose, ()) {
  std::vector<DirectoryNode> nodes = DrawNodes(10, 0);
  const DirectoryShape shape{*rc::gen::inRange<uint32_t>(0, 9), 1, true};
  const Directory base = Must(Allocate(shape, nodes));
  nodes = DrawChange(nodes, 100, 0);
  const Directory after = Must(Reallocate(base, nodes));
  std::map<NodeId, int64_t> lost;
  std::map<NodeId, int64_t> gained;
  for (const SlotChange& change : ChangesBetween(base, after)) {
    ++lost[change.from];
    ++gained[change.to];
  }
  const std::vector<Ratio> shares = FillShares(NaturalTargets(shape, after.nodes));
  const std::vector<uint64_t> slots = SlotsPerNode(after, std::nullopt);
  for (size_t i = 0; i < slots.size(); ++i) {
    const NodeId& id = after.nodes[i].id;
    RC_ASSERT(lost[id] == 0 || gained[id] == 0);
    if (lost[id] > 0) RC_ASSERT(slots[i] >= shares[i].numerator / shares[i].denominator);
  }
}

// The least that a join can move is what the new node has at the end. Between the nodes that stay,
// only rounding may move a slot, and only among unequal weights.
RC_GTEST_PROP(DirectoryProperty, AJoinOfEqualsMovesExactlyTheNewNodesSlots, ()) {
  const uint32_t count = *rc::gen::inRange<uint32_t>(1, 20);
  const DirectoryShape shape{*rc::gen::inRange<uint32_t>(0, 9),
                             *rc::gen::inRange<uint32_t>(1, std::min(count, 3u) + 1), true};
  std::vector<DirectoryNode> nodes;
  for (uint32_t i = 0; i < count; ++i) nodes.push_back({fmt::format("n{}", i), 1000, ""});
  const Directory base = Must(Allocate(shape, nodes));
  nodes.push_back({"new", 1000, ""});
  const Directory after = Must(Reallocate(base, nodes));
  uint64_t own = 0;
  for (size_t i = 0; i < after.nodes.size(); ++i) {
    if (after.nodes[i].id == "new") own = SlotsPerNode(after, std::nullopt)[i];
  }
  RC_ASSERT(MovementBetween(base, after).moved_slots == own);

  nodes.pop_back();
  const Directory back = Must(Reallocate(after, nodes));
  const uint64_t moved = MovementBetween(after, back).moved_slots;
  RC_ASSERT(moved >= own);
  if (shape.ranks == 1) RC_ASSERT(moved == own);
  CheckBalanced(back);
}

RC_GTEST_PROP(DirectoryProperty, GrowingMovesNothing, ()) {
  const std::vector<DirectoryNode> nodes = DrawNodes(10, DrawZones());
  const Directory base = Must(Allocate(DrawShape(6, nodes), nodes));
  const Directory grown = Must(Grow(base, base.shape.bits + *rc::gen::inRange<uint32_t>(0, 4)));
  RC_ASSERT(ChangesBetween(base, grown).empty());
  RC_ASSERT(CountViolations(grown) == CountViolations(base)
                                          << (grown.shape.bits - base.shape.bits));
}

RC_GTEST_PROP(DirectoryProperty, ChangesAreTheWholeDifference, ()) {
  const int zones = DrawZones();
  const std::vector<DirectoryNode> nodes = DrawNodes(10, zones);
  DirectoryShape shape = DrawShape(6, nodes);
  shape.strict = false;
  const Directory base = Must(Allocate(shape, nodes));
  const Directory after = Must(Reallocate(base, DrawChange(nodes, 100, zones)));
  std::map<std::pair<uint32_t, uint32_t>, SlotChange> changes;
  for (const SlotChange& change : ChangesBetween(base, after)) {
    changes[{change.bucket, change.rank}] = change;
  }
  const auto name = [](const Directory& directory, uint32_t bucket, uint32_t rank) {
    const uint32_t node = directory.OwnerOf(bucket, rank);
    return node == Directory::kNoNode ? NodeId() : directory.nodes[node].id;
  };
  for (uint32_t bucket = 0; bucket < shape.buckets(); ++bucket) {
    for (uint32_t r = 0; r < shape.ranks; ++r) {
      const NodeId from = name(base, bucket, r);
      const NodeId to = name(after, bucket, r);
      const auto change = changes.find({bucket, r});
      RC_ASSERT((change != changes.end()) == (from != to));
      if (change == changes.end()) continue;
      RC_ASSERT(change->second.from == from);
      RC_ASSERT(change->second.to == to);
    }
  }
}

// Whatever an operator asks for, in whatever mixture, is either refused or done.
RC_GTEST_PROP(DirectoryProperty, OptionsAreRefusedOrKept, ()) {
  const int zones = DrawZones();
  const std::vector<DirectoryNode> nodes = DrawNodes(8, zones);
  const DirectoryShape shape = DrawShape(6, nodes);
  const Directory base = Must(Allocate(shape, nodes));
  const std::vector<DirectoryNode> next = DrawChange(nodes, 100, zones);
  const auto draw_bucket = [&] { return *rc::gen::inRange<uint32_t>(0, shape.buckets()); };
  const auto draw_id = [&] { return next[*rc::gen::inRange<size_t>(0, next.size())].id; };

  ReallocateOptions options;
  options.balance =
      *rc::gen::element(ReallocateOptions::Balance::kAll, ReallocateOptions::Balance::kAddedOnly,
                        ReallocateOptions::Balance::kNothing);
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    ReallocateOptions::Pin pin{draw_bucket(), {}};
    if (*rc::gen::arbitrary<bool>()) {
      pin.seat = {*rc::gen::inRange<uint32_t>(0, shape.ranks), draw_id()};
    }
    options.pins.push_back(std::move(pin));
  }
  if (*rc::gen::inRange(0, 3) == 0) {
    options.node_caps.push_back({draw_id(), *rc::gen::inRange<uint64_t>(0, shape.buckets() + 1)});
  }
  if (zones > 0 && *rc::gen::inRange(0, 3) == 0) {
    options.domain_caps.push_back(
        {next[0].domain, *rc::gen::inRange<uint64_t>(0, shape.slots() + 1)});
  }
  if (*rc::gen::inRange(0, 3) == 0) {
    const uint32_t bucket = draw_bucket();
    const uint32_t from = base.OwnerOf(bucket, 0);
    options.moves.push_back({bucket, base.nodes[from].id, draw_id()});
  }
  if (*rc::gen::inRange(0, 3) == 0) {
    for (uint32_t i = 0; i < shape.buckets(); ++i) {
      options.heat.push_back(*rc::gen::inRange<uint64_t>(0, 1000));
    }
  }

  const absl::StatusOr<Directory> after = Reallocate(base, next, options);
  RC_TAG(after.ok());
  if (!after.ok()) {
    RC_ASSERT(after.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  Must(after);
  if (shape.strict) RC_ASSERT(CountViolations(*after) == 0u);
  for (const ReallocateOptions::Pin& pin : options.pins) {
    if (!pin.seat.has_value()) continue;
    const uint32_t owner = after->OwnerOf(pin.bucket, pin.seat->rank);
    RC_ASSERT(after->nodes[owner].id == pin.seat->node);
  }
  const std::vector<uint64_t> slots = SlotsPerNode(*after, std::nullopt);
  std::map<std::string, uint64_t> of_domain;
  for (size_t i = 0; i < slots.size(); ++i) {
    of_domain[after->nodes[i].domain] += slots[i];
    for (const ReallocateOptions::Cap& cap : options.node_caps) {
      if (cap.name == after->nodes[i].id) RC_ASSERT(slots[i] <= cap.slots);
    }
  }
  for (const ReallocateOptions::Cap& cap : options.domain_caps) {
    RC_ASSERT(of_domain[cap.name] <= cap.slots);
  }
}

using Holders = std::vector<uint32_t>;  // of one bucket, ascending

std::vector<Holders> AllHolders(const std::vector<DirectoryNode>& nodes, uint32_t ranks) {
  const DomainNumbers domains = NumberDomains(nodes);
  std::vector<Holders> all;
  for (uint32_t mask = 0; mask < (uint32_t{1} << nodes.size()); ++mask) {
    Holders holders;
    std::set<uint32_t> used;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if ((mask >> i & 1) == 0) continue;
      holders.push_back(i);
      used.insert(domains.of_node[i]);
    }
    if (holders.size() == ranks && used.size() == ranks) all.push_back(holders);
  }
  return all;
}

// The least number of moved slots with which some valid directory gives each node exactly `slots`,
// by trying all sets of holders for each bucket.
class LeastMovement {
 public:
  LeastMovement(const Directory& base, const Directory& after)
      : after_(after), all_(AllHolders(after.nodes, after.shape.ranks)) {
    for (uint32_t bucket = 0; bucket < base.shape.buckets(); ++bucket) {
      held_.emplace_back();
      for (uint32_t r = 0; r < base.shape.ranks; ++r) {
        held_.back().insert(base.nodes[base.OwnerOf(bucket, r)].id);
      }
    }
    left_ = SlotsPerNode(after, std::nullopt);
  }

  uint64_t Find() {
    Try(0, 0);
    return best_;
  }

 private:
  void Try(uint32_t bucket, uint64_t moved) {
    if (moved >= best_) return;
    if (bucket == held_.size()) {
      best_ = moved;
      return;
    }
    for (const Holders& holders : all_) {
      if (std::any_of(holders.begin(), holders.end(),
                      [this](uint32_t i) { return left_[i] == 0; })) {
        continue;
      }
      uint64_t more = 0;
      for (uint32_t i : holders) {
        --left_[i];
        if (held_[bucket].count(after_.nodes[i].id) == 0) ++more;
      }
      Try(bucket + 1, moved + more);
      for (uint32_t i : holders) ++left_[i];
    }
  }

  const Directory& after_;
  std::vector<Holders> all_;
  std::vector<std::set<NodeId>> held_;  // by bucket
  std::vector<uint64_t> left_;          // by node
  uint64_t best_ = UINT64_MAX;
};

RC_GTEST_PROP(DirectoryProperty, MovesNoMoreThanBruteForceFinds, ()) {
  const int zones = *rc::gen::element(0, 3, 4);
  const std::vector<DirectoryNode> nodes = DrawNodes(5, zones);
  const DirectoryShape shape{*rc::gen::inRange<uint32_t>(0, 3), *rc::gen::inRange<uint32_t>(1, 4),
                             true};
  RC_PRE(IsFeasible(shape, nodes));
  const Directory base = Must(Allocate(shape, nodes));
  const std::vector<DirectoryNode> next = DrawChange(nodes, 100, zones);
  RC_PRE(IsFeasible(shape, next));
  const Directory after = Must(Reallocate(base, next));
  const uint64_t moved = MovementBetween(base, after).moved_slots;
  const uint64_t least = LeastMovement(base, after).Find();
  RC_TAG(shape.ranks == 1 ? "one rank" : "ranks", moved - least);
  if (shape.ranks == 1) RC_ASSERT(moved == least);
  RC_ASSERT(moved <= least + 2);
}

}  // namespace
}  // namespace warmring
