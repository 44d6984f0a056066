#include "core/placement/directory_targets.h"

#include <algorithm>
#include <tuple>

namespace warmring {
namespace {

// Water-fills `total` into the nodes `members` of the problem, regardless of domains.
void FillFlat(const TargetProblem& problem, const std::vector<uint32_t>& members, uint64_t total,
              std::vector<Ratio>& shares) {
  enum class State : uint8_t { kFree, kCapped, kLeast };
  std::vector<State> state(members.size(), State::kFree);
  while (true) {
    // With the set held at their least, the capped ones are found from scratch: the level falls
    // whenever that set grows, and rises whenever the capped set does.
    for (State& s : state) s = s == State::kCapped ? State::kFree : s;
    uint64_t pool = 0;
    uint64_t weights = 0;
    bool changed = true;
    while (changed) {
      changed = false;
      pool = total;
      weights = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        const TargetProblem::Node& node = problem.nodes[members[i]];
        if (state[i] == State::kFree) weights += node.weight;
        if (state[i] == State::kCapped) pool -= std::min(pool, node.cap);
        if (state[i] == State::kLeast) pool -= std::min(pool, node.least);
      }
      for (size_t i = 0; i < members.size(); ++i) {
        const TargetProblem::Node& node = problem.nodes[members[i]];
        if (state[i] == State::kFree && pool * node.weight >= node.cap * weights) {
          state[i] = State::kCapped;
          changed = true;
        }
      }
    }
    bool settled = true;
    for (size_t i = 0; i < members.size(); ++i) {
      const TargetProblem::Node& node = problem.nodes[members[i]];
      if (state[i] == State::kFree && pool * node.weight < node.least * weights) {
        state[i] = State::kLeast;
        settled = false;
      }
    }
    if (!settled) continue;
    for (size_t i = 0; i < members.size(); ++i) {
      const TargetProblem::Node& node = problem.nodes[members[i]];
      Ratio& share = shares[members[i]];
      if (state[i] == State::kFree) share = {pool * node.weight, weights};
      if (state[i] == State::kCapped) share = {node.cap, 1};
      if (state[i] == State::kLeast) share = {node.least, 1};
    }
    return;
  }
}

// A domain's share: all its shares that are not whole have one denominator.
Ratio Sum(const std::vector<Ratio>& shares, const std::vector<uint32_t>& members) {
  Ratio sum{0, 1};
  uint64_t whole = 0;
  for (uint32_t i : members) {
    if (shares[i].denominator == 1) {
      whole += shares[i].numerator;
    } else {
      sum.numerator += shares[i].numerator;
      sum.denominator = shares[i].denominator;
    }
  }
  sum.numerator += whole * sum.denominator;
  return sum;
}

std::vector<std::vector<uint32_t>> MembersByDomain(const TargetProblem& problem) {
  std::vector<std::vector<uint32_t>> members(problem.domain_caps.size());
  for (uint32_t i = 0; i < problem.nodes.size(); ++i) {
    members[problem.nodes[i].domain].push_back(i);
  }
  return members;
}

// Moves `extra[.., from]` to `extra[.., to]` for up to `count` nodes, those first for which it is
// least against what they hold.
void ShiftExtras(const std::vector<uint64_t>& targets, const std::vector<uint64_t>& owned,
                 uint32_t ranks, uint32_t from, uint32_t to, uint64_t count,
                 std::vector<uint8_t>& extra) {
  for (int cost = -1; cost <= 1 && count > 0; ++cost) {
    for (size_t n = 0; n < targets.size() && count > 0; ++n) {
      const size_t at = n * ranks;
      if (extra[at + from] == 0 || extra[at + to] != 0) continue;
      const uint64_t floor = targets[n] / ranks;
      const int held = (owned[at + from] > floor ? 1 : 0) - (owned[at + to] > floor ? 1 : 0);
      if (held != cost) continue;
      extra[at + from] = 0;
      extra[at + to] = 1;
      --count;
    }
  }
}

}  // namespace

uint32_t DomainDepth(const std::vector<uint32_t>& nodes_per_domain, uint32_t ranks) {
  for (uint32_t depth = 1;; ++depth) {
    uint64_t room = 0;
    for (uint32_t nodes : nodes_per_domain) room += std::min(depth, nodes);
    if (room >= ranks) return depth;
  }
}

TargetProblem NaturalTargets(const DirectoryShape& shape, const std::vector<DirectoryNode>& nodes) {
  const DomainNumbers domains = NumberDomains(nodes);
  const auto ranks = static_cast<uint32_t>(std::min<size_t>(shape.ranks, nodes.size()));
  TargetProblem problem;
  problem.slots = uint64_t{shape.buckets()} * ranks;
  std::vector<uint32_t> members(domains.count, 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    TargetProblem::Node node;
    node.weight = nodes[i].weight_milli;
    node.domain = domains.of_node[i];
    node.cap = shape.buckets();
    problem.nodes.push_back(node);
    ++members[node.domain];
  }
  const uint32_t depth = DomainDepth(members, ranks);
  for (uint32_t count : members) {
    problem.domain_caps.push_back(uint64_t{shape.buckets()} * std::min(depth, count));
  }
  return problem;
}

std::vector<Ratio> FillShares(const TargetProblem& problem) {
  std::vector<Ratio> shares(problem.nodes.size());
  const std::vector<std::vector<uint32_t>> domains = MembersByDomain(problem);
  std::vector<bool> capped(domains.size(), false);
  uint64_t total = problem.slots;
  bool changed = true;
  while (changed) {
    changed = false;
    std::vector<uint32_t> members;
    for (uint32_t i = 0; i < problem.nodes.size(); ++i) {
      if (!capped[problem.nodes[i].domain]) members.push_back(i);
    }
    FillFlat(problem, members, total, shares);
    uint64_t left = total;
    for (size_t d = 0; d < domains.size(); ++d) {
      if (capped[d]) continue;
      const Ratio sum = Sum(shares, domains[d]);
      if (sum.numerator <= problem.domain_caps[d] * sum.denominator) continue;
      capped[d] = changed = true;
      left -= problem.domain_caps[d];
      FillFlat(problem, domains[d], problem.domain_caps[d], shares);
    }
    total = left;
  }
  return shares;
}

std::vector<uint64_t> RoundShares(const TargetProblem& problem, const std::vector<Ratio>& shares) {
  const size_t count = shares.size();
  std::vector<uint64_t> targets(count);
  for (size_t i = 0; i < count; ++i) targets[i] = shares[i].numerator / shares[i].denominator;

  // Who would be rounded up first.
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < count; ++i) {
    if (shares[i].numerator % shares[i].denominator != 0) order.push_back(i);
  }
  const auto rank = [&](uint32_t i) {
    return std::make_tuple(problem.nodes[i].owned <= targets[i],
                           UINT64_MAX - shares[i].numerator % shares[i].denominator, i);
  };
  std::vector<std::tuple<bool, uint64_t, uint32_t>> ranked;
  for (uint32_t i : order) ranked.push_back(rank(i));
  std::sort(ranked.begin(), ranked.end());

  // Each domain first gets the floor of its own share, then the domains with a remainder share what
  // is left, at most one each.
  const std::vector<std::vector<uint32_t>> domains = MembersByDomain(problem);
  std::vector<uint64_t> due(domains.size());
  std::vector<bool> more(domains.size());
  uint64_t left = problem.slots;
  for (size_t d = 0; d < domains.size(); ++d) {
    const Ratio sum = Sum(shares, domains[d]);
    due[d] = sum.numerator / sum.denominator;
    more[d] = sum.numerator % sum.denominator != 0;
    left -= std::min(left, due[d]);
    for (uint32_t i : domains[d]) due[d] -= targets[i];
  }
  std::vector<uint32_t> rest;
  for (const auto& [unheld, remainder, i] : ranked) {
    uint64_t& here = due[problem.nodes[i].domain];
    if (here > 0) {
      ++targets[i];
      --here;
    } else {
      rest.push_back(i);
    }
  }
  for (uint32_t i : rest) {
    if (left == 0) break;
    if (!more[problem.nodes[i].domain]) continue;
    more[problem.nodes[i].domain] = false;
    ++targets[i];
    --left;
  }
  return targets;
}

std::vector<uint64_t> SplitByRank(const std::vector<uint64_t>& targets,
                                  const std::vector<uint64_t>& owned, uint32_t ranks) {
  uint64_t extras = 0;
  for (uint64_t target : targets) extras += target % ranks;
  const auto room = static_cast<int64_t>(extras / ranks);
  std::vector<int64_t> left(ranks, room);

  std::vector<uint8_t> extra(targets.size() * ranks, 0);
  std::vector<std::tuple<bool, int64_t, uint32_t>> choice;
  for (size_t n = 0; n < targets.size(); ++n) {
    const uint64_t floor = targets[n] / ranks;
    choice.clear();
    for (uint32_t r = 0; r < ranks; ++r) {
      choice.emplace_back(owned[n * ranks + r] <= floor, -left[r], r);
    }
    std::sort(choice.begin(), choice.end());
    for (uint64_t i = 0; i < targets[n] % ranks; ++i) {
      const uint32_t r = std::get<2>(choice[i]);
      extra[n * ranks + r] = 1;
      --left[r];
    }
  }
  // More nodes have an extra at an overfull rank than at an underfull one, so there is always one
  // that can shift.
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks && left[from] < 0; ++to) {
      if (left[to] <= 0) continue;
      const int64_t shift = std::min(-left[from], left[to]);
      ShiftExtras(targets, owned, ranks, from, to, static_cast<uint64_t>(shift), extra);
      left[from] += shift;
      left[to] -= shift;
    }
  }
  std::vector<uint64_t> split(extra.size());
  for (size_t n = 0; n < targets.size(); ++n) {
    for (uint32_t r = 0; r < ranks; ++r) {
      split[n * ranks + r] = targets[n] / ranks + extra[n * ranks + r];
    }
  }
  return split;
}

}  // namespace warmring
