#include "core/placement/copy_change.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/status_macros.h"
#include "core/membership/failure_domain.h"
#include "core/membership/update.h"
#include "core/placement/member.h"
#include "core/placement/preference.h"

namespace warmring {
namespace {

static_assert(kNobody == kNoNode && kNobody == Directory::kNoNode);

// Who has copies of each range, the owner first, by number.
struct Copies {
  std::vector<HashPoint> ends;
  std::vector<uint32_t> nodes;  // as many for each end as there are copies
};

// Numbers members before and after, in the order of their ids.
class Names {
 public:
  Names(const Membership& base, const std::vector<Node>& added) {
    for (const Node& node : base.nodes()) nodes_.push_back(node);
    nodes_.insert(nodes_.end(), added.begin(), added.end());
    std::sort(nodes_.begin(), nodes_.end(),
              [](const Node& a, const Node& b) { return a.id < b.id; });
  }

  uint32_t NumberOf(std::string_view id) const {
    const auto at =
        std::lower_bound(nodes_.begin(), nodes_.end(), id,
                         [](const Node& node, std::string_view key) { return node.id < key; });
    return static_cast<uint32_t>(at - nodes_.begin());
  }
  NodeId IdOf(uint32_t number) const { return number == kNobody ? NodeId() : nodes_[number].id; }
  const std::vector<Node>& nodes() const { return nodes_; }

  // From the index into `list`, of which all are known, to the number.
  template <typename List>
  std::vector<uint32_t> NumbersOf(const List& list) const {
    std::vector<uint32_t> numbers;
    numbers.reserve(list.size());
    for (const auto& node : list) numbers.push_back(NumberOf(node.id));
    return numbers;
  }

 private:
  std::vector<Node> nodes_;
};

class Reallocator {
 public:
  Reallocator(const Membership& base, const CopyChange& change)
      : base_(base),
        change_(change),
        names_(base, change.change.added),
        copies_(base.spec().replication) {
    stays_.assign(names_.nodes().size(), true);
    for (const NodeId& id : change.change.removed) stays_[names_.NumberOf(id)] = false;
  }

  absl::StatusOr<CopiesAfter> Result() {
    RETURN_IF_ERROR(CheckEnoughDomains());
    Copies after;
    if (!change_.replaced.empty()) {
      after = Replaced();
    } else if (base_.spec().placement == PlacementKind::kDirectory) {
      ASSIGN_OR_RETURN(after, OnDirectory());
    } else {
      ASSIGN_OR_RETURN(after, OnRing());
    }
    RETURN_IF_ERROR(CheckDomains(after));
    return Difference(Before(after.ends), after);
  }

 private:
  absl::Status CheckEnoughDomains() const {
    const DomainRule& rule = base_.spec().domains;
    if (rule.best_effort) return absl::OkStatus();
    std::set<std::string> domains;
    size_t left = 0;
    for (size_t i = 0; i < stays_.size(); ++i) {
      if (!stays_[i]) continue;
      ++left;
      domains.insert(DomainOf(names_.nodes()[i], rule.level));
    }
    if (domains.size() >= copies_) return absl::OkStatus();
    const std::string_view level = DomainLevelName(rule.level);
    return absl::InvalidArgumentError(fmt::format(
        "changes: {} copies need as many {}s, and the {} nodes that there would be stand "
        "in {}: add nodes in other {}s in the same plan",
        copies_, level, left, domains.size(), level));
  }

  Copies Before(const std::vector<HashPoint>& ends) const {
    const std::vector<uint32_t> numbers = names_.NumbersOf(base_.nodes());
    Copies before;
    before.ends = ends;
    before.nodes.reserve(ends.size() * copies_);
    for (const HashPoint end : ends) {
      const size_t range = base_.RangeIndexOf(end);
      before.nodes.push_back(numbers[base_.ranges()[range].owner]);
      for (const NodeIndex follower : base_.FollowersAt(range)) {
        before.nodes.push_back(follower == kNoNode ? kNobody : numbers[follower]);
      }
    }
    return before;
  }

  std::vector<HashPoint> EndsOfBase() const {
    std::vector<HashPoint> ends;
    ends.reserve(base_.ranges().size());
    for (const OwnedRange& range : base_.ranges()) ends.push_back(range.end);
    return ends;
  }

  Copies Replaced() const {
    std::vector<uint32_t> by(names_.nodes().size());
    for (uint32_t i = 0; i < by.size(); ++i) by[i] = i;
    for (const auto& [from, to] : change_.replaced) by[names_.NumberOf(from)] = names_.NumberOf(to);
    Copies copies = Before(EndsOfBase());
    for (uint32_t& node : copies.nodes) {
      if (node != kNobody) node = by[node];
    }
    return copies;
  }

  // The first follower of the range that is left, if its owner is not; the range's copies before
  // are those from `at` on.
  uint32_t Heir(const Copies& before, size_t at) const {
    if (!change_.is_dead || stays_[before.nodes[at]]) return kNobody;
    for (size_t rank = 1; rank < copies_; ++rank) {
      const uint32_t node = before.nodes[at + rank];
      if (node != kNobody && stays_[node]) return node;
    }
    return kNobody;
  }

  absl::StatusOr<Copies> OnDirectory() const {
    ASSIGN_OR_RETURN(const Directory directory, DirectoryAfter(base_, change_.change));
    const std::vector<uint32_t> numbers = names_.NumbersOf(directory.nodes);
    Copies after;
    after.ends = EndsOfBase();
    after.nodes.reserve(directory.owner.size());
    for (const uint32_t node : directory.owner) {
      after.nodes.push_back(node == kNobody ? kNobody : numbers[node]);
    }
    const Copies before = Before(after.ends);
    for (size_t at = 0; at < after.nodes.size(); at += copies_) {
      const auto row = after.nodes.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = row + static_cast<std::ptrdiff_t>(copies_);
      const auto heir = std::find(row, end, Heir(before, at));
      if (heir != end && *heir != kNobody) std::iter_swap(row, heir);
    }
    return after;
  }

  absl::StatusOr<Copies> OnRing() const {
    ASSIGN_OR_RETURN(const Membership::Ptr owners, OwnersAlone());
    const Reallocation reallocation =
        Reallocate(*owners, change_.change.added, change_.change.removed);
    Update update;
    update.put_nodes = change_.change.added;
    update.split_at = reallocation.splits;
    const Epoch epoch = owners->HighestEpoch().Next();
    for (const RangeMove& move : reallocation.moves) {
      update.assignments.push_back({move.ranges, move.to, epoch});
    }
    ASSIGN_OR_RETURN(const Membership::Ptr moved, Apply(*owners, update));
    const std::vector<uint32_t> numbers = names_.NumbersOf(moved->nodes());
    Copies after;
    std::vector<uint32_t> owner;
    for (const OwnedRange& range : moved->ranges()) {
      after.ends.push_back(range.end);
      owner.push_back(numbers[range.owner]);
    }
    const Copies before = Before(after.ends);
    for (size_t i = 0; i < owner.size(); ++i) {
      const uint32_t heir = Heir(before, i * copies_);
      if (heir != kNobody) owner[i] = heir;
    }
    return WithPreferences(std::move(after), owner);
  }

  // The base as the allocator of rings knows it.
  absl::StatusOr<Membership::Ptr> OwnersAlone() const {
    MembershipData data = base_.data();
    data.spec.replication = 1;
    data.spec.domains = {};
    data.followers.clear();
    data.moves.clear();
    return Membership::Create(std::move(data));
  }

  absl::StatusOr<Copies> WithPreferences(Copies copies, const std::vector<uint32_t>& owner) const {
    std::vector<Node> nodes;
    std::vector<uint32_t> number;                           // by index into nodes
    std::vector<uint32_t> index(names_.nodes().size(), 0);  // by number
    for (uint32_t i = 0; i < names_.nodes().size(); ++i) {
      if (!stays_[i]) continue;
      index[i] = static_cast<uint32_t>(nodes.size());
      nodes.push_back(names_.nodes()[i]);
      number.push_back(i);
    }
    std::vector<OwnedRange> ranges;
    for (size_t i = 0; i < owner.size(); ++i) {
      ranges.push_back({copies.ends[i], index[owner[i]], Epoch(1)});
    }
    ASSIGN_OR_RETURN(const std::vector<NodeIndex> lists,
                     PreferenceLists(base_.spec(), nodes, ranges));
    const size_t followers = copies_ - 1;
    for (size_t i = 0; i < owner.size(); ++i) {
      copies.nodes.push_back(owner[i]);
      for (size_t rank = 0; rank < followers; ++rank) {
        const NodeIndex follower = lists[i * followers + rank];
        copies.nodes.push_back(follower == kNoNode ? kNobody : number[follower]);
      }
    }
    return copies;
  }

  absl::Status CheckDomains(const Copies& after) const {
    const DomainRule& rule = base_.spec().domains;
    if (rule.best_effort) return absl::OkStatus();
    std::vector<std::string> domains;
    for (const Node& node : names_.nodes()) domains.push_back(DomainOf(node, rule.level));
    size_t broken = 0;
    for (size_t at = 0; at < after.nodes.size(); at += copies_) {
      std::set<std::string_view> used;
      for (size_t rank = 0; rank < copies_; ++rank) {
        const uint32_t node = after.nodes[at + rank];
        if (node != kNobody) used.insert(domains[node]);
      }
      if (used.size() < copies_) ++broken;
    }
    if (broken == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "changes: {} range{} would have two copies in one {}, or too few, which the keyspace does "
        "not allow: choose a node in another {}",
        broken, broken == 1 ? "" : "s", DomainLevelName(rule.level), DomainLevelName(rule.level)));
  }

  CopiesAfter Difference(const Copies& before, const Copies& after) const {
    CopiesAfter result;
    std::map<std::pair<NodeId, NodeId>, std::vector<HashRange>> moves;
    for (size_t i = 0; i < after.ends.size(); ++i) {
      const HashPoint end = after.ends[i];
      const HashRange range{i == 0 ? after.ends.back() : after.ends[i - 1], end};
      if (base_.ranges()[base_.RangeIndexOf(end)].end != end) {
        result.reallocation.splits.push_back(end);
      }
      const auto was = before.nodes.begin() + static_cast<std::ptrdiff_t>(i * copies_);
      const auto is = after.nodes.begin() + static_cast<std::ptrdiff_t>(i * copies_);
      const auto copies = static_cast<std::ptrdiff_t>(copies_);
      if (*was != *is) moves[{names_.IdOf(*was), names_.IdOf(*is)}].push_back(range);
      if (std::equal(was + 1, was + copies, is + 1)) continue;
      CopiesAfter::Followers& followers = result.followers.emplace_back();
      followers.range = range;
      followers.owner_before = names_.IdOf(*was);
      followers.owner_after = names_.IdOf(*is);
      for (std::ptrdiff_t rank = 1; rank < copies; ++rank) {
        followers.before.push_back(names_.IdOf(was[rank]));
        followers.after.push_back(names_.IdOf(is[rank]));
      }
    }
    for (const auto& [nodes, ranges] : moves) {
      result.reallocation.moves.push_back({nodes.first, nodes.second, HashRangeSet(ranges)});
    }
    return result;
  }

  const Membership& base_;
  const CopyChange& change_;
  const Names names_;
  const size_t copies_;
  std::vector<bool> stays_;  // by number
};

}  // namespace

absl::StatusOr<CopiesAfter> ReallocateCopies(const Membership& base, const CopyChange& change) {
  return Reallocator(base, change).Result();
}

}  // namespace warmring
