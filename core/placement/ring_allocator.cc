#include "core/placement/ring_allocator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/hashing/key_hash.h"

namespace warmring {
namespace {

struct Token {
  HashPoint at = 0;
  uint32_t member = 0;
};

// Calls `use` with each derived token of `members[first...]`, node after node.
template <typename Use>
void DeriveTokens(const KeyspaceSpec& spec, const std::vector<Member>& members, size_t first,
                  Use use) {
  for (size_t m = first; m < members.size(); ++m) {
    const Node& node = *members[m].node;
    const uint32_t count = TokensOf(spec, node);
    for (uint32_t i = 0; i < count; ++i) {
      use(Token{DeriveToken(node.HashName(), i), static_cast<uint32_t>(m)});
    }
  }
}

// Derived tokens of `members[first...]`, sorted; of equal ones only the winner.
//
// Positions are hashes, so that their top bits deal them out evenly, into shares that sort in the
// first cache. To derive a token twice costs less than the memory to deal it from.
std::vector<Token> TokensOfMembers(const KeyspaceSpec& spec, const std::vector<Member>& members,
                                   size_t first) {
  constexpr uint32_t kShareBits = 12;
  const auto share_of = [](const Token& token) { return token.at >> (64 - kShareBits); };
  std::vector<size_t> ends((size_t{1} << kShareBits) + 1, 0);
  DeriveTokens(spec, members, first, [&](const Token& token) { ++ends[share_of(token) + 1]; });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Token> tokens(ends.back());
  // Dealing moves each share's begin to its end, which is the next one's begin.
  DeriveTokens(spec, members, first,
               [&](const Token& token) { tokens[ends[share_of(token)]++] = token; });
  auto begin = tokens.begin();
  for (size_t share = 0; share + 1 < ends.size(); ++share) {
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(ends[share]);
    std::sort(begin, end, [&](const Token& a, const Token& b) {
      return a.at != b.at ? a.at < b.at : members[a.member].Key() < members[b.member].Key();
    });
    begin = end;
  }
  tokens.erase(std::unique(tokens.begin(), tokens.end(),
                           [](const Token& a, const Token& b) { return a.at == b.at; }),
               tokens.end());
  return tokens;
}

// Owner of each range of `base` once the nodes that leave have left: the owner of the next range
// clockwise that stays, or nobody when all leave.
std::vector<uint32_t> OwnersAfterRemoval(const Membership& base, const std::vector<bool>& stays) {
  const std::vector<OwnedRange>& ranges = base.ranges();
  std::vector<uint32_t> owners(ranges.size(), kNobody);
  uint32_t next = kNobody;
  // The second round knows what stays clockwise of the last range.
  for (int round = 0; round < 2; ++round) {
    for (size_t i = ranges.size(); i-- > 0;) {
      if (stays[ranges[i].owner]) next = ranges[i].owner;
      owners[i] = next;
    }
  }
  return owners;
}

class RingReallocation {
 public:
  RingReallocation(const Membership& base, const std::vector<Member>& members,
                   const std::vector<bool>& stays)
      : base_(base),
        members_(members),
        owners_(OwnersAfterRemoval(base, stays)),
        own_tokens_(members.size()) {}

  Reallocation Run() {
    Cut();
    for (size_t i = 0; i < cuts_.size(); ++i) {
      if (cuts_[i].taker != kNobody) GiveArc(i);
    }
    return {std::move(splits_), MovesOf(FlowsOfCuts(), members_)};
  }

 private:
  // The end of a present range, or of the part of one that a new token cuts off.
  struct CutPoint {
    HashPoint end = 0;
    size_t range = 0;          // of base
    uint32_t taker = kNobody;  // whose token ends here
    uint32_t target = kNobody;
  };

  // Whether `at` is one of the tokens that `member` derives.
  bool IsTokenOf(uint32_t member, HashPoint at) {
    std::vector<HashPoint>& tokens = own_tokens_[member];
    if (tokens.empty()) {
      const Node& node = *members_[member].node;
      const uint32_t count = TokensOf(base_.spec(), node);
      for (uint32_t i = 0; i < count; ++i) tokens.push_back(DeriveToken(node.HashName(), i));
      std::sort(tokens.begin(), tokens.end());
    }
    return std::binary_search(tokens.begin(), tokens.end(), at);
  }

  // A token that collides with one of the present owner wins only when its node comes first.
  bool LosesTie(const Token& token, size_t range) {
    const uint32_t owner = owners_[range];
    return base_.ranges()[range].end == token.at && owner != kNobody &&
           members_[owner].Key() < members_[token.member].Key() && IsTokenOf(owner, token.at);
  }

  void Cut() {
    const std::vector<OwnedRange>& ranges = base_.ranges();
    size_t next = 0;
    const auto copy_ranges_before = [&](HashPoint at) {
      for (; next < ranges.size() && ranges[next].end < at; ++next) {
        cuts_.push_back({ranges[next].end, next, kNobody, owners_[next]});
      }
    };
    for (const Token& token : TokensOfMembers(base_.spec(), members_, base_.nodes().size())) {
      const size_t range = base_.RangeIndexOf(token.at);
      if (LosesTie(token, range)) continue;
      copy_ranges_before(token.at);
      cuts_.push_back({token.at, range, token.member, owners_[range]});
      if (ranges[range].end == token.at) {
        ++next;
      } else {
        splits_.push_back(token.at);
      }
    }
    copy_ranges_before(UINT64_MAX);
    if (next < ranges.size()) cuts_.push_back({ranges[next].end, next, kNobody, owners_[next]});
  }

  // The arc of the token at cuts_[i]: back to the previous token of anybody. An end between that is
  // no token only divides a present owner's range in two.
  void GiveArc(size_t i) {
    const uint32_t taker = cuts_[i].taker;
    const uint32_t owner = owners_[cuts_[i].range];
    cuts_[i].target = taker;
    for (size_t k = Before(i); k != i; k = Before(k)) {
      CutPoint& cut = cuts_[k];
      if (cut.taker != kNobody || owners_[cut.range] != owner) return;
      if (owner != kNobody && IsTokenOf(owner, cut.end)) return;
      cut.target = taker;
    }
  }

  size_t Before(size_t i) const { return i == 0 ? cuts_.size() - 1 : i - 1; }

  Flows FlowsOfCuts() const {
    Flows flows;
    for (size_t i = 0; i < cuts_.size(); ++i) {
      const uint32_t from = base_.ranges()[cuts_[i].range].owner;
      if (from == cuts_[i].target) continue;
      flows[{from, cuts_[i].target}].push_back({cuts_[Before(i)].end, cuts_[i].end});
    }
    return flows;
  }

  const Membership& base_;
  const std::vector<Member>& members_;
  std::vector<uint32_t> owners_;  // per range of base, after removal
  std::vector<std::vector<HashPoint>> own_tokens_;
  std::vector<CutPoint> cuts_;  // sorted by end
  std::vector<HashPoint> splits_;
};

}  // namespace

std::vector<OwnedRange> InitialRing(const KeyspaceSpec& spec, const std::vector<Member>& members,
                                    Epoch epoch) {
  const std::vector<Token> tokens = TokensOfMembers(spec, members, 0);
  std::vector<OwnedRange> ranges;
  ranges.reserve(tokens.size());
  for (const Token& token : tokens) {
    ranges.push_back({token.at, token.member, epoch});
  }
  return ranges;
}

Reallocation ReallocateRing(const Membership& base, const std::vector<Member>& members,
                            const std::vector<bool>& stays) {
  return RingReallocation(base, members, stays).Run();
}

}  // namespace warmring
