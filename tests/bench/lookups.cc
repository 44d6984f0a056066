#include "tests/bench/lookups.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/hashing/key_hash.h"
#include "core/membership/membership.h"
#include "core/placement/allocator.h"
#include "core/placement/initial.h"
#include "core/placement/routing_table.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/names.h"
#include "tests/bench/peers.h"
#include "warmring/router.h"

namespace warmring::bench {
namespace {

constexpr uint32_t kTokens = 160;
constexpr uint32_t kReplicas = 3;
const HashSpec kHash;

KeyspaceSpec RingSpec(uint32_t tokens_per_node) {
  KeyspaceSpec spec;
  spec.id = "bench";
  spec.placement = PlacementKind::kRing;
  spec.tokens_per_node = tokens_per_node;
  return spec;
}

KeyspaceSpec DirectorySpec(uint32_t bits, uint32_t replicas = 1) {
  KeyspaceSpec spec;
  spec.id = "bench";
  spec.directory_bits = bits;
  spec.replication = replicas;
  return spec;
}

std::vector<HashPoint> EndsOf(const std::vector<OwnedRange>& ranges) {
  std::vector<HashPoint> ends;
  ends.reserve(ranges.size());
  for (const OwnedRange& range : ranges) ends.push_back(range.end);
  return ends;
}

// The owner of each range, and behind it the owners of the next ranges clockwise that differ.
std::vector<uint32_t> OwnersOf(const std::vector<OwnedRange>& ranges, uint32_t replicas) {
  std::vector<uint32_t> owners;
  owners.reserve(ranges.size() * replicas);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const size_t first = owners.size();
    owners.push_back(ranges[i].owner);
    for (size_t step = 1; owners.size() < first + replicas; ++step) {
      const uint32_t owner = ranges[(i + step) % ranges.size()].owner;
      const auto mine = owners.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::find(mine, owners.end(), owner) == owners.end()) owners.push_back(owner);
    }
  }
  return owners;
}

RoutingTable Compile(const std::vector<OwnedRange>& ranges, uint32_t replicas) {
  return RoutingTable::Build(EndsOf(ranges), OwnersOf(ranges, replicas), replicas);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fmt::print(stderr, "placement_bench: {}\n", value.status().ToString());
  std::abort();
}

Membership::Ptr MakeMembership(const KeyspaceSpec& spec, uint32_t nodes) {
  MembershipData data;
  data.version = Version(1);
  data.spec = spec;
  data.nodes = MakeNodes(nodes);
  InitialPlacement placement = Must(PlaceInitially(spec, data.nodes, Epoch(1)));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  return Must(Membership::Create(std::move(data)));
}

uint32_t SumOfOwners(const RoutingTable& table, std::string_view key) {
  const RoutingTable::Row row = table.Values(HashKey(kHash, key));
  uint32_t sum = 0;
  for (uint32_t rank = 0; rank < kReplicas; ++rank) sum += row[rank];
  return sum;
}

uint32_t SumOfHolders(const Membership& membership, std::string_view key) {
  const Membership::Holders holders = membership.HoldersOf(HashKey(kHash, key));
  uint32_t sum = holders.owner();
  for (uint32_t rank = 0; rank + 1 < kReplicas; ++rank) sum += holders.follower(rank);
  return sum;
}

uint64_t NumberOf(const HostPtr& host) { return reinterpret_cast<uintptr_t>(host.get()) >> 4; }

// What the lookups of one fleet read; alive until the run is over.
struct Fleet {
  explicit Fleet(uint32_t nodes)
      : ring_ranges(InitialRanges(RingSpec(kTokens), MakeNodes(nodes), Epoch(1))),
        buckets(InitialRanges(DirectorySpec(16), MakeNodes(nodes), Epoch(1))),
        ring(Compile(ring_ranges, 1)),
        ring_replicas(Compile(ring_ranges, kReplicas)),
        directory(Compile(buckets, 1)),
        directory_replicas(Compile(buckets, kReplicas)),
        tokens([this] {
          Tokens result;
          for (const OwnedRange& range : ring_ranges) result.emplace_back(range.end, range.owner);
          return result;
        }()),
        map(tokens.begin(), tokens.end()),
        branchless(tokens),
        maglev(NodeNames(nodes)),
        envoy_maglev(NodeNames(nodes)),
        envoy_ring(NodeNames(nodes), kTokens),
        membership(MakeMembership(DirectorySpec(16), nodes)),
        replicated(MakeMembership(DirectorySpec(16, kReplicas), nodes)) {
    router.Install(membership);
    replica_router.Install(replicated);
    if (nodes <= Ketama::kMaxNodes) ketama = std::make_unique<Ketama>(nodes);
  }

  const std::vector<OwnedRange> ring_ranges;
  const std::vector<OwnedRange> buckets;
  const RoutingTable ring;
  const RoutingTable ring_replicas;
  const RoutingTable directory;
  const RoutingTable directory_replicas;
  const Tokens tokens;
  const TokenMap map;
  const BranchlessRing branchless;
  const Maglev maglev;
  const EnvoyMaglev envoy_maglev;
  const EnvoyRing envoy_ring;
  const Membership::Ptr membership;
  const Membership::Ptr replicated;
  Router router;
  Router replica_router;
  std::unique_ptr<Ketama> ketama;
};

void AddOurs(Stopwatch& watch, uint32_t nodes, const Fleet& fleet) {
  watch.Add("directory P=16", nodes, [table = &fleet.directory](std::string_view key) {
    return table->Value(HashKey(kHash, key));
  });
  watch.Add("directory P=16 R=3", nodes, [table = &fleet.directory_replicas](std::string_view key) {
    return SumOfOwners(*table, key);
  });
  watch.Add("ring", nodes, [table = &fleet.ring](std::string_view key) {
    return table->Value(HashKey(kHash, key));
  });
  watch.Add("ring R=3", nodes, [table = &fleet.ring_replicas](std::string_view key) {
    return SumOfOwners(*table, key);
  });
  watch.Add("RouteKey", nodes, [membership = fleet.membership.get()](std::string_view key) {
    return RouteKey(*membership, key).owner;
  });
  watch.Add("Locate", nodes, [router = &fleet.router](std::string_view key) {
    std::optional<Location> at = router->Locate(key);
    benchmark::DoNotOptimize(at);  // all of it
    return at->hash;
  });
  watch.Add("Membership R=3", nodes, [membership = fleet.replicated.get()](std::string_view key) {
    return SumOfHolders(*membership, key);
  });
  watch.Add("LocateReplicas R=3", nodes,
            [router = &fleet.replica_router,
             followers = std::make_shared<Followers>()](std::string_view key) {
              std::optional<Location> at = router->LocateReplicas(key, *followers);
              benchmark::DoNotOptimize(at);
              benchmark::DoNotOptimize(*followers);
              return at->hash + followers->size();
            });
}

void AddPeers(Stopwatch& watch, uint32_t nodes, const Fleet& fleet) {
  watch.Add("branchless lower_bound", nodes, [ring = &fleet.branchless](std::string_view key) {
    return ring->Find(HashKey(kHash, key));
  });
  watch.Add("std::lower_bound", nodes, [tokens = &fleet.tokens](std::string_view key) {
    return FindByLowerBound(*tokens, HashKey(kHash, key));
  });
  watch.Add("std::map", nodes, [map = &fleet.map](std::string_view key) {
    return FindInMap(*map, HashKey(kHash, key));
  });
  watch.Add("jump hash", nodes,
            [nodes](std::string_view key) { return JumpHash(HashKey(kHash, key), nodes); });
  watch.Add("maglev table alone", nodes, [maglev = &fleet.maglev](std::string_view key) {
    return maglev->Find(HashKey(kHash, key));
  });
  watch.Add("maglev as in Envoy", nodes, [maglev = &fleet.envoy_maglev](std::string_view key) {
    return NumberOf(maglev->Find(key));
  });
  watch.Add("ring_hash as in Envoy", nodes,
            [ring = &fleet.envoy_ring](std::string_view key) { return NumberOf(ring->Find(key)); });
  if (fleet.ketama != nullptr) {
    watch.Add("libmemcached ketama", nodes,
              [ketama = fleet.ketama.get()](std::string_view key) { return ketama->Find(key); });
  }
}

}  // namespace

std::vector<Timing> TimeLookups(const Stopwatch::Options& options) {
  Stopwatch watch(options);
  watch.Add("hash alone", 0, [](std::string_view key) { return HashKey(kHash, key); });
  std::vector<uint16_t> line(size_t{1} << 16, 0);
  for (size_t i = 0; i < line.size(); ++i) line[i] = static_cast<uint16_t>(i * 40503);
  watch.Add("hash and one load", 0, [&line](std::string_view key) {
    return line[static_cast<size_t>(HashKey(kHash, key) >> 48)];
  });

  std::vector<std::unique_ptr<Fleet>> fleets;
  for (const uint32_t nodes : {10U, 100U, 1000U}) {
    fleets.push_back(std::make_unique<Fleet>(nodes));
    AddOurs(watch, nodes, *fleets.back());
    AddPeers(watch, nodes, *fleets.back());
  }
  const Fleet& fleet = *fleets[1];

  std::vector<RoutingTable> other_sizes;
  for (const uint32_t bits : {14U, 18U}) {
    other_sizes.push_back(Compile(InitialRanges(DirectorySpec(bits), MakeNodes(100), Epoch(1)), 1));
  }
  watch.Add("directory P=14", 100, [table = &other_sizes[0]](std::string_view key) {
    return table->Value(HashKey(kHash, key));
  });
  watch.Add("directory P=18", 100, [table = &other_sizes[1]](std::string_view key) {
    return table->Value(HashKey(kHash, key));
  });

  watch.AddThroughput("directory on threads", 100,
                      [table = &fleet.directory](std::string_view key) {
                        return table->Value(HashKey(kHash, key));
                      },
                      {1, 2});
  watch.AddThroughput(
      "Locate on threads", 100,
      [router = &fleet.router](std::string_view key) { return router->Locate(key)->hash; }, {1, 2});

  watch.AddCold(
      "directory P=16", 100, [&fleet] { return fleet.directory; }, fleet.directory.MemoryBytes(),
      [](const RoutingTable& table, std::string_view key) {
        return table.Value(HashKey(kHash, key));
      });
  watch.AddCold(
      "ring", 100, [&fleet] { return Compile(fleet.ring_ranges, 1); }, fleet.ring.MemoryBytes(),
      [](const RoutingTable& table, std::string_view key) {
        return table.Value(HashKey(kHash, key));
      });
  watch.AddCold(
      "std::lower_bound", 100, [&fleet] { return fleet.tokens; },
      fleet.tokens.size() * sizeof(Tokens::value_type),
      [](const Tokens& tokens, std::string_view key) {
        return FindByLowerBound(tokens, HashKey(kHash, key));
      });
  watch.AddCold(
      "maglev table alone", 100, [&fleet] { return fleet.maglev; },
      Maglev::kSlots * sizeof(uint16_t),
      [](const Maglev& maglev, std::string_view key) { return maglev.Find(HashKey(kHash, key)); });
  return watch.Run();
}

TableCost MeasureTable(uint32_t nodes, uint32_t tokens_per_node) {
  const std::vector<Node> members = MakeNodes(nodes);
  std::vector<TableCost> costs;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const double begin = CpuSeconds();
    const std::vector<OwnedRange> ranges =
        InitialRanges(RingSpec(tokens_per_node), members, Epoch(1));
    const double placed = CpuSeconds();
    const RoutingTable table = Compile(ranges, 1);
    const double compiled = CpuSeconds();
    costs.push_back(
        {nodes, tokens_per_node, placed - begin, compiled - placed,
         static_cast<double>(table.MemoryBytes()) / static_cast<double>(ranges.size())});
  }
  std::sort(costs.begin(), costs.end(), [](const TableCost& a, const TableCost& b) {
    return a.place_s + a.compile_s < b.place_s + b.compile_s;
  });
  return costs[costs.size() / 2];
}

}  // namespace warmring::bench
