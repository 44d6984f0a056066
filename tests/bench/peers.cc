#include "tests/bench/peers.h"

#include <libmemcached/memcached.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace warmring::bench {

uint32_t FindByLowerBound(const Tokens& tokens, HashPoint hash) {
  const auto found = std::lower_bound(
      tokens.begin(), tokens.end(), hash,
      [](const std::pair<HashPoint, uint32_t>& token, HashPoint h) { return token.first < h; });
  return found == tokens.end() ? tokens.front().second : found->second;
}

BranchlessRing::BranchlessRing(const Tokens& tokens) {
  for (const auto& [end, node] : tokens) {
    ends_.push_back(end);
    nodes_.push_back(node);
  }
  nodes_.push_back(nodes_.front());
}

uint32_t FindInMap(const TokenMap& tokens, HashPoint hash) {
  const auto found = tokens.lower_bound(hash);
  return found == tokens.end() ? tokens.begin()->second : found->second;
}

uint32_t JumpHash(uint64_t hash, uint32_t nodes) {
  int64_t at = -1;
  int64_t next = 0;
  while (next < int64_t{nodes}) {
    at = next;
    hash = hash * 2862933555777941757ULL + 1;
    next =
        static_cast<int64_t>(static_cast<double>(at + 1) * (static_cast<double>(int64_t{1} << 31) /
                                                            static_cast<double>((hash >> 33) + 1)));
  }
  return static_cast<uint32_t>(at);
}

Maglev::Maglev(const std::vector<std::string>& nodes) {
  constexpr uint16_t kFree = std::numeric_limits<uint16_t>::max();
  slots_.assign(kSlots, kFree);
  struct Permutation {
    uint64_t at;
    uint64_t skip;
  };
  std::vector<Permutation> permutations;
  for (const std::string& node : nodes) {
    permutations.push_back({XXH64(node.data(), node.size(), 0) % kSlots,
                            XXH64(node.data(), node.size(), 1) % (kSlots - 1) + 1});
  }
  for (uint64_t filled = 0; filled < kSlots;) {
    for (size_t node = 0; node < nodes.size() && filled < kSlots; ++node, ++filled) {
      Permutation& mine = permutations[node];
      while (slots_[mine.at] != kFree) mine.at = (mine.at + mine.skip) % kSlots;
      slots_[mine.at] = static_cast<uint16_t>(node);
    }
  }
}

std::vector<HostPtr> MakeHosts(const std::vector<std::string>& nodes) {
  std::vector<HostPtr> hosts;
  for (const std::string& node : nodes) hosts.push_back(std::make_shared<const Host>(Host{node}));
  return hosts;
}

EnvoyMaglev::EnvoyMaglev(const std::vector<std::string>& nodes)
    : bits_(static_cast<uint32_t>(std::bit_width(nodes.size()))), hosts_(MakeHosts(nodes)) {
  const Maglev maglev(nodes);
  // A read of eight bytes at the last slot must stay inside.
  packed_.assign(size_ * bits_ / 8 + sizeof(uint64_t), 0);
  for (uint64_t slot = 0; slot < size_; ++slot) {
    const uint64_t bit = slot * bits_;
    uint64_t word = 0;
    std::memcpy(&word, &packed_[bit / 8], sizeof word);
    word |= uint64_t{maglev.Find(slot)} << (bit % 8);
    std::memcpy(&packed_[bit / 8], &word, sizeof word);
  }
}

HostPtr EnvoyMaglev::Find(std::string_view key) const {
  const uint64_t bit = XXH64(key.data(), key.size(), 0) % size_ * bits_;
  uint64_t word = 0;
  std::memcpy(&word, &packed_[bit / 8], sizeof word);
  return hosts_[(word >> (bit % 8)) & ((uint64_t{1} << bits_) - 1)];
}

EnvoyRing::EnvoyRing(const std::vector<std::string>& nodes, uint32_t tokens_per_node) {
  for (const HostPtr& host : MakeHosts(nodes)) {
    for (uint32_t i = 0; i < tokens_per_node; ++i) {
      const std::string name = host->address + "_" + std::to_string(i);
      ring_.push_back({XXH64(name.data(), name.size(), 0), host});
    }
  }
  std::sort(ring_.begin(), ring_.end(),
            [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
}

HostPtr EnvoyRing::Find(std::string_view key) const {
  const uint64_t hash = XXH64(key.data(), key.size(), 0);
  size_t low = 0;
  size_t high = ring_.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint64_t end = ring_[middle].hash;
    const uint64_t before = middle == 0 ? 0 : ring_[middle - 1].hash;
    if (hash <= end && hash > before) return ring_[middle].host;
    if (end < hash) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return ring_.front().host;
}

struct Ketama::State {
  memcached_st* handle = nullptr;
};

Ketama::Ketama(size_t nodes) : state_(std::make_unique<State>()) {
  state_->handle = memcached_create(nullptr);
  memcached_st* const handle = state_->handle;
  bool ok = handle != nullptr && memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED,
                                                        1) == MEMCACHED_SUCCESS;
  memcached_server_st* servers = nullptr;
  for (size_t i = 0; ok && i < nodes; ++i) {
    memcached_return_t result = MEMCACHED_SUCCESS;
    const std::string name = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    servers = memcached_server_list_append(servers, name.c_str(), 11211, &result);
    ok = result == MEMCACHED_SUCCESS;
  }
  ok = ok && memcached_server_push(handle, servers) == MEMCACHED_SUCCESS;
  memcached_server_list_free(servers);
  if (!ok) std::abort();
}

Ketama::~Ketama() { memcached_free(state_->handle); }

uint32_t Ketama::Find(std::string_view key) const {
  return memcached_generate_hash(state_->handle, key.data(), key.size());
}

}  // namespace warmring::bench
