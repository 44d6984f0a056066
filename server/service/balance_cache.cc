#include "server/service/balance_cache.h"

#include <algorithm>

#include "core/placement/preference.h"

namespace warmring {

KeyspaceBalance KeyspaceBalanceOf(const Membership& membership) {
  KeyspaceBalance balance;
  balance.shares.resize(membership.nodes().size());
  for (size_t i = 0; i < membership.ranges().size(); ++i) {
    const HashRange range = membership.RangeAt(i);
    balance.shares[membership.ranges()[i].owner] +=
        (static_cast<double>(range.SizeMinusOne()) + 1) / 18446744073709551616.0;
  }
  for (const Node& node : membership.nodes()) balance.total_weight += node.weight_milli;
  for (size_t i = 0; i < balance.shares.size(); ++i) {
    balance.max_over_mean =
        std::max(balance.max_over_mean,
                 balance.shares[i] * balance.total_weight / membership.nodes()[i].weight_milli);
  }
  balance.domain_violations = CountDomainViolations(membership);
  return balance;
}

std::shared_ptr<const KeyspaceBalance> BalanceCache::Of(const Membership::Ptr& membership) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = balances_.find(membership);
    if (found != balances_.end()) return found->second;
  }
  // Without the lock: others need not wait for it. Two threads may both do it once.
  auto balance = std::make_shared<const KeyspaceBalance>(KeyspaceBalanceOf(*membership));
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(balances_, [](const auto& item) { return item.first.expired(); });
  return balances_.emplace(membership, std::move(balance)).first->second;
}

size_t BalanceCache::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return balances_.size();
}

}  // namespace warmring
