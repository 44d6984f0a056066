#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/membership/membership.h"

namespace warmring {

// How evenly a membership shares its keyspace.
struct KeyspaceBalance {
  std::vector<double> shares;  // of hash space, by node index
  double total_weight = 0;     // in thousandths
  double max_over_mean = 0;    // of the shares, each by its node's weight
  size_t domain_violations = 0;
};
KeyspaceBalance KeyspaceBalanceOf(const Membership& membership);

// Balances of memberships that are alive, each computed once however often it is asked for: that
// reads every range, and a listing asks for each keyspace. Thread-safe.
class BalanceCache {
 public:
  std::shared_ptr<const KeyspaceBalance> Of(const Membership::Ptr& membership);
  // Balances that are kept. A membership's is dropped after its end, at the next one that is new.
  size_t size() const;

 private:
  using Key = std::weak_ptr<const Membership>;

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const KeyspaceBalance>, std::owner_less<Key>> balances_;
};

}  // namespace warmring
