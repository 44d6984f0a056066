#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "absl/time/time.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"
#include "client/import/cassandra_ring.h"
#include "client/import/envoy_ring.h"
#include "client/import/fleet.h"
#include "client/import/ketama.h"
#include "client/import/redis_cluster.h"
#include "client/import/token_list.h"
#include "client/redis/redis_connection.h"
#include "core/base/status_macros.h"
#include "proto/wire/membership.h"

namespace warmring::cli {
namespace {

constexpr absl::Duration kRedisTimeout = absl::Seconds(5);
// What a server takes in one message.
constexpr size_t kMaxRequestBytes = size_t{4} << 20;

struct ImportFlags {
  std::string name;
  std::vector<std::string> from;  // format, source
  bool other_library = false;
  uint16_t port = 9042;
  FleetSize size;
  bool dry_run = false;
  std::string on_restart = "trust";
  uint32_t origin_fill_qps = 0;
  uint32_t grace_ms = 0;
};

absl::StatusOr<std::string> ReadSource(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(fmt::format("--from: {} cannot be read", Printable(path)));
  }
  // One byte more than any parser takes is enough for it to say so.
  std::string text(Fleet::kMaxSourceBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    return absl::InvalidArgumentError(fmt::format("--from: {} cannot be read", Printable(path)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<RedisReply> Ask(const std::string& address, std::string_view what) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RedisConnection> redis,
                   RedisConnection::Connect(address, kRedisTimeout));
  return redis->Command({"CLUSTER", what});
}

// The cluster as the node at `address` sees it, if its masters see the same and nothing moves.
absl::StatusOr<Fleet> ReadRedisCluster(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  ASSIGN_OR_RETURN(const RedisReply slots, Ask(address, "SLOTS"));
  ASSIGN_OR_RETURN(const Fleet fleet, FleetOfSlots(slots, host));
  for (const Node& master : fleet.nodes) {
    ASSIGN_OR_RETURN(const RedisReply nodes, Ask(master.address, "NODES"));
    if (SlotsMove(nodes.text)) {
      return absl::FailedPreconditionError(fmt::format(
          "redis-cluster: slots move to or from {}: import when the resharding has ended",
          master.address));
    }
    ASSIGN_OR_RETURN(const RedisReply seen, Ask(master.address, "SLOTS"));
    ASSIGN_OR_RETURN(const Fleet other,
                     FleetOfSlots(seen, master.address.substr(0, master.address.rfind(':'))));
    for (size_t slot = 0; slot < fleet.ranges.size(); ++slot) {
      const Node& here = fleet.nodes[fleet.ranges[slot].owner];
      const Node& there = other.nodes[other.ranges[slot].owner];
      if (here.address == there.address) continue;
      return absl::FailedPreconditionError(fmt::format(
          "redis-cluster: {} says that slot {} is at {}, and {} that it is at {}: wait until the "
          "cluster agrees",
          address, slot, here.address, master.address, there.address));
    }
  }
  return fleet;
}

absl::StatusOr<Fleet> ReadFleet(const ImportFlags& flags) {
  const std::string& format = flags.from[0];
  const std::string& source = flags.from[1];
  static constexpr std::string_view kFormats[] = {"ketama", "redis-cluster", "tokens",
                                                  "cassandra-tokens", "envoy"};
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats)) {
    return absl::InvalidArgumentError(
        fmt::format("--from: '{}' is not known: use ketama FILE, redis-cluster HOST:PORT, tokens "
                    "FILE, cassandra-tokens FILE or envoy FILE",
                    Printable(format)));
  }
  if (format == "redis-cluster") return ReadRedisCluster(source);
  ASSIGN_OR_RETURN(const std::string text, ReadSource(source));
  if (format == "ketama") {
    return ParseKetama(text,
                       flags.other_library ? KetamaLibrary::kOther : KetamaLibrary::kLibmemcached);
  }
  if (format == "tokens") return ParseTokenList(text);
  if (format == "cassandra-tokens") return ParseCassandraRing(text, flags.port);
  return ParseEnvoyRing(text);
}

v1::CreateKeyspaceRequest RequestFor(const Fleet& fleet, const ImportFlags& flags) {
  v1::CreateKeyspaceRequest request;
  KeyspaceSpec spec;
  spec.id = flags.name;
  spec.placement = fleet.placement;
  spec.directory_bits = fleet.directory_bits;
  spec.tokens_per_node = fleet.tokens_per_node;
  spec.hash = fleet.hash;
  spec.on_restart = flags.on_restart == "purge" ? OnRestart::kPurge : OnRestart::kTrust;
  spec.origin_fill_qps = flags.origin_fill_qps;
  if (flags.grace_ms != 0) spec.grace_ms = flags.grace_ms;
  *request.mutable_spec() = wire::ToProto(spec);
  for (const Node& node : fleet.nodes) *request.add_nodes() = wire::ToProto(node);
  v1::ExplicitPlacement* placement = request.mutable_placement();
  for (const OwnedRange& range : fleet.ranges) {
    if (fleet.placement == PlacementKind::kRing) placement->add_range_ends(range.end);
    placement->add_range_owners(range.owner);
  }
  request.set_validate_only(flags.dry_run);
  return request;
}

void PrintShares(const Fleet& fleet) {
  const std::vector<double> shares = fleet.Shares();
  std::vector<size_t> ranges(fleet.nodes.size());
  for (const OwnedRange& range : fleet.ranges) ++ranges[range.owner];
  Table table({{"NODE"}, {"ADDRESS"}, {"NAME IN THE ORIGINAL"}, {"RANGES", true}, {"SHARE", true}});
  for (size_t i = 0; i < fleet.nodes.size(); ++i) {
    table.AddRow({fleet.nodes[i].id, fleet.nodes[i].address, Printable(fleet.nodes[i].HashName()),
                  fmt::format("{}", ranges[i]), FormatShare(shares[i])});
  }
  std::cout << table.ToString();
}

// What is wrong with a source is a usage error, like a wrong plan file; that a cluster cannot be
// reached, or does not stand still, is none.
ExitCode Refuse(const Session& session, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return session.Fail(status);
  return session.Usage(std::string(status.message().data(), status.message().size()));
}

ExitCode Import(Session& session, const ImportFlags& flags) {
  const absl::StatusOr<Fleet> fleet = ReadFleet(flags);
  if (!fleet.ok()) return Refuse(session, fleet.status());
  if (const absl::Status size = CheckSize(*fleet, flags.size); !size.ok()) {
    return Refuse(session, size);
  }
  v1::CreateKeyspaceRequest request = RequestFor(*fleet, flags);
  request.set_request_id(session.flags().request_id);
  request.set_reason(session.flags().reason);
  if (request.ByteSizeLong() > kMaxRequestBytes) {
    return session.Usage(
        fmt::format("the fleet has {} ranges, which take {} bytes: {} are the limit of a request",
                    fleet->ranges.size(), request.ByteSizeLong(), kMaxRequestBytes));
  }
  v1::CreateKeyspaceResponse response;
  const grpc::Status status =
      session.keyspaces().CreateKeyspace(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response.keyspace());
    return ExitCode::kDone;
  }
  PrintShares(*fleet);
  const v1::Keyspace& k = response.keyspace();
  std::cout << fmt::format(
      "keyspace {} {}: {} nodes, {} ranges, max/mean {:.3f}; each key stays where it is\n",
      k.spec().id(),
      flags.dry_run ? "would be adopted" : fmt::format("adopted at v{}", k.version()),
      k.node_count(), fleet->ranges.size(), k.max_over_mean());
  return ExitCode::kDone;
}

}  // namespace

void AddKeyspaceImport(CLI::App* noun, Run* run) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* import = noun->add_subcommand("import", "adopt a fleet as it stands, no key moves");
  import->add_option("name", flags->name, "the keyspace's id")->required();
  import
      ->add_option("--from", flags->from,
                   "ketama FILE, redis-cluster HOST:PORT, tokens FILE, cassandra-tokens FILE or "
                   "envoy FILE")
      ->type_size(2)
      ->expected(1)
      ->required();
  import->add_flag("--full-names", flags->other_library,
                   "ketama: as libketama and uhashring name servers, with port 11211 too");
  import->add_option("--port", flags->port, "cassandra-tokens: port of addresses without one")
      ->capture_default_str();
  import->add_option("--expect-nodes", flags->size.nodes, "refuse another number of nodes");
  import->add_option("--expect-ranges", flags->size.ranges, "refuse another number of ranges");
  import->add_flag("--dry-run", flags->dry_run, "print the shares, create nothing");
  import
      ->add_option("--on-restart", flags->on_restart,
                   "trust (default: the nodes keep what they hold) or purge")
      ->check(CLI::IsMember({"purge", "trust"}));
  import->add_option("--origin-fill-qps", flags->origin_fill_qps,
                     "origin fills a second for all clients together (default: no bound)");
  import->add_option("--grace-ms", flags->grace_ms,
                     "time after a commit for reads of the previous owner (default 60000)");
  import->callback([run, flags] { *run = [flags](Session& s) { return Import(s, *flags);
};
}  // namespace warmring::cli
);
}

}  // namespace warmring::cli
