#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/hash_range.h"

// What a lookup is measured against: the ways in which others find the node of a key. Each is
// immutable once made, any thread. A node is its index.

namespace warmring::bench {

// (token, node), sorted by token: what the searches below search.
using Tokens = std::vector<std::pair<HashPoint, uint32_t>>;

// The node of the first token at or clockwise after `hash`, by std::lower_bound.
uint32_t FindByLowerBound(const Tokens& tokens, HashPoint hash);

// The same by a search whose steps are conditional moves. REQUIRES: `ends` sorted, not empty.
class BranchlessRing {
 public:
  explicit BranchlessRing(const Tokens& tokens);
  uint32_t Find(HashPoint hash) const {
    const HashPoint* base = ends_.data();
    for (size_t size = ends_.size(); size > 1;) {
      const size_t half = size / 2;
      base += base[half - 1] < hash ? half : 0;
      size -= half;
    }
    const size_t at = static_cast<size_t>(base - ends_.data()) + (*base < hash ? 1 : 0);
    return nodes_[at];
  }

 private:
  std::vector<HashPoint> ends_;
  std::vector<uint32_t> nodes_;  // the first once more after the last
};

// The same in a std::map.
using TokenMap = std::map<HashPoint, uint32_t>;
uint32_t FindInMap(const TokenMap& tokens, HashPoint hash);

// Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm". REQUIRES: nodes above 0.
uint32_t JumpHash(uint64_t hash, uint32_t nodes);

// The lookup table of Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
// Balancer": each node in turn takes the next free slot of its own permutation. 65,537 slots, the
// size that Envoy uses.
class Maglev {
 public:
  static constexpr uint64_t kSlots = 65537;
  explicit Maglev(const std::vector<std::string>& nodes);
  uint32_t Find(uint64_t hash) const { return slots_[hash % size_]; }

 private:
  uint64_t size_ = kSlots;  // a field, as the size is an option: no division by a constant
  std::vector<uint16_t> slots_;
};

// What Envoy hands to its caller: a shared pointer to the host.
struct Host {
  std::string address;
};
using HostPtr = std::shared_ptr<const Host>;
std::vector<HostPtr> MakeHosts(const std::vector<std::string>& nodes);

// Envoy's maglev in its compact form, which it takes for this many hosts: XXH64 of the key, the
// remainder, an array of as many bits per slot as a host's number needs, and a copy of the host's
// shared pointer.
class EnvoyMaglev {
 public:
  explicit EnvoyMaglev(const std::vector<std::string>& nodes);
  HostPtr Find(std::string_view key) const;

 private:
  uint64_t size_ = Maglev::kSlots;
  uint32_t bits_ = 0;
  std::vector<uint8_t> packed_;
  std::vector<HostPtr> hosts_;
};

// Envoy's ring_hash: XXH64 of "address_i" and of the key, a binary search that compares with both
// neighbours over (hash, host) entries, and a copy of the host's shared pointer.
class EnvoyRing {
 public:
  EnvoyRing(const std::vector<std::string>& nodes, uint32_t tokens_per_node);
  HostPtr Find(std::string_view key) const;

 private:
  struct Entry {
    uint64_t hash;
    HostPtr host;
  };
  std::vector<Entry> ring_;
};

// libmemcached with MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED: MD5, 160 points a node when all weigh the
// same. It aborts the process above kMaxNodes.
class Ketama {
 public:
  static constexpr size_t kMaxNodes = 100;
  explicit Ketama(size_t nodes);
  ~Ketama();
  Ketama(const Ketama&) = delete;
  Ketama& operator=(const Ketama&) = delete;
  uint32_t Find(std::string_view key) const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace warmring::bench
