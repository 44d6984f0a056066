// `keyspace sim`: what a change of the nodes would do, offline.

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "client/cli/render/balance.h"
#include "client/cli/verbs.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "core/placement/initial.h"
#include "core/placement/preference.h"

namespace warmring::cli {
namespace {

constexpr uint32_t kMaxSimulatedNodes = 10'000;

struct SimFlags {
  // Either a file of `keyspace export` ...
  std::string from;
  // ... or a description.
  uint32_t nodes = 5;
  uint32_t zones = 0;
  std::string placement = "directory";
  std::string allocator = "standard";
  uint32_t bits = 16;
  uint32_t tokens = KeyspaceSpec::kDefaultTokensPerNode;
  uint32_t replication = 1;
  bool best_effort = false;
  // The change.
  uint32_t count = 1;
  double weight = 1;
  std::string zone;
  std::vector<std::string> ids;
};

Node SimulatedNode(uint32_t number, uint32_t zones) {
  Node node;
  node.id = fmt::format("node-{:04}", number);
  node.address = node.id + ":1";
  if (zones > 0) node.zone = fmt::format("zone-{}", number % zones);
  return node;
}

absl::StatusOr<Membership::Ptr> FromFile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  if (!in) {
    return absl::NotFoundError(fmt::format(
        "--from: '{}' cannot be read: write it with `keyspace export`", Printable(file)));
  }
  absl::StatusOr<Membership::Ptr> membership = UnsealMembership(bytes.str());
  if (membership.ok()) return membership;
  return absl::InvalidArgumentError(fmt::format("--from: '{}': {}: write it with `keyspace export`",
                                                Printable(file),
                                                std::string(membership.status().message())));
}

absl::StatusOr<Membership::Ptr> FromDescription(const SimFlags& flags) {
  if (flags.nodes < 1 || flags.nodes > kMaxSimulatedNodes) {
    return absl::InvalidArgumentError(
        fmt::format("--nodes: {} is out of bounds: use 1 to {}", flags.nodes, kMaxSimulatedNodes));
  }
  MembershipData data;
  data.version = Version(1);
  data.spec.id = "simulated";
  data.spec.placement =
      flags.placement == "ring" ? PlacementKind::kRing : PlacementKind::kDirectory;
  if (flags.allocator == "rendezvous") data.spec.allocator = Allocator::kRendezvous;
  if (flags.allocator == "deliberate") data.spec.allocator = Allocator::kDeliberate;
  data.spec.directory_bits = flags.bits;
  data.spec.tokens_per_node = flags.tokens;
  data.spec.replication = flags.replication;
  if (flags.replication > 1 && flags.zones > 0) data.spec.domains.level = DomainLevel::kZone;
  if (flags.replication > 1) data.spec.domains.best_effort = flags.best_effort;
  RETURN_IF_ERROR(ValidateKeyspaceSpec(data.spec));
  for (uint32_t i = 0; i < flags.nodes; ++i) data.nodes.push_back(SimulatedNode(i, flags.zones));
  ASSIGN_OR_RETURN(InitialPlacement placement, PlaceInitially(data.spec, data.nodes, Epoch(1)));
  data.ranges = std::move(placement.ranges);
  data.followers = std::move(placement.followers);
  return Membership::Create(std::move(data));
}

absl::StatusOr<uint32_t> WeightMilli(double weight) {
  const double milli = weight * 1000;
  if (!(milli >= Node::kMinWeightMilli && milli <= Node::kMaxWeightMilli)) {
    return absl::InvalidArgumentError(
        fmt::format("weight: {} is out of bounds: use 0.01 to 1000", weight));
  }
  return static_cast<uint32_t>(milli + 0.5);
}

absl::StatusOr<SimulatedChange> Additions(const SimFlags& flags, const Membership& base) {
  if (flags.count < 1 || flags.count > kMaxSimulatedNodes) {
    return absl::InvalidArgumentError(
        fmt::format("count: {} is out of bounds: use 1 to {}", flags.count, kMaxSimulatedNodes));
  }
  SimulatedChange change;
  for (uint32_t number = static_cast<uint32_t>(base.nodes().size());
       change.added.size() < flags.count; ++number) {
    Node node = SimulatedNode(number, flags.zones);
    if (base.FindNode(node.id).has_value()) continue;
    if (!flags.zone.empty()) node.zone = flags.zone;
    ASSIGN_OR_RETURN(node.weight_milli, WeightMilli(flags.weight));
    change.added.push_back(std::move(node));
  }
  return change;
}

absl::StatusOr<SimulatedChange> Removals(const SimFlags& flags, const Membership&) {
  SimulatedChange change;
  change.removed = flags.ids;
  return change;
}

// NODE=WEIGHT
absl::StatusOr<SimulatedChange> Weights(const SimFlags& flags, const Membership&) {
  SimulatedChange change;
  for (const std::string& text : flags.ids) {
    const size_t equals = text.rfind('=');
    double weight = 0;
    if (equals == std::string::npos || !absl::SimpleAtod(text.substr(equals + 1), &weight)) {
      return absl::InvalidArgumentError(
          fmt::format("weight: '{}': write NODE=WEIGHT, such as cache-01=2", Printable(text)));
    }
    ASSIGN_OR_RETURN(const uint32_t milli, WeightMilli(weight));
    if (!change.weight_milli.emplace(text.substr(0, equals), milli).second) {
      return absl::InvalidArgumentError(
          fmt::format("weight: '{}' is named twice", Printable(text.substr(0, equals))));
    }
  }
  return change;
}

void PrintJson(const Membership& before, const SimulatedOutcome& outcome) {
  const Balance now = BalanceOf(before);
  const Balance then = BalanceOf(*outcome.after);
  const nlohmann::json json = {{"moved_share", outcome.moved_share},
                               {"copied_share", outcome.copied_share},
                               {"ideal_share", outcome.ideal_share},
                               {"modulo_share", outcome.modulo_share},
                               {"plain_ring_share", outcome.plain_ring_share},
                               {"max_over_mean_before", now.max_over_mean},
                               {"max_over_mean_after", then.max_over_mean},
                               {"domain_violations_before", CountDomainViolations(before)},
                               {"domain_violations_after", CountDomainViolations(*outcome.after)}};
  std::cout << json.dump(2) << "\n";
}

using ChangeOf = absl::StatusOr<SimulatedChange> (*)(const SimFlags&, const Membership&);

ExitCode Simulated(Session& session, const SimFlags& flags, ChangeOf change_of) {
  const absl::StatusOr<Membership::Ptr> base =
      flags.from.empty() ? FromDescription(flags) : FromFile(flags.from);
  if (!base.ok()) return session.Fail(base.status());
  const absl::StatusOr<SimulatedChange> change = change_of(flags, **base);
  if (!change.ok()) return session.Fail(change.status());
  const absl::StatusOr<SimulatedOutcome> outcome = Simulate(**base, *change);
  if (!outcome.ok()) return session.Fail(outcome.status());
  if (session.json()) {
    PrintJson(**base, *outcome);
  } else {
    std::cout << RenderOutcome(**base, *outcome);
  }
  return ExitCode::kDone;
}

void AddBase(CLI::App* verb, const std::shared_ptr<SimFlags>& flags) {
  verb->add_option("--from", flags->from, "a file of `keyspace export`; else a description:");
  verb->add_option("--nodes", flags->nodes, "how many nodes there are (default 5)");
  verb->add_option("--zones", flags->zones, "they stand in so many zones, in turn");
  verb->add_option("--placement", flags->placement, "directory or ring")
      ->check(CLI::IsMember({"directory", "ring"}));
  verb->add_option("--allocator", flags->allocator, "standard, rendezvous or deliberate")
      ->check(CLI::IsMember({"standard", "rendezvous", "deliberate"}));
  verb->add_option("--buckets-log2", flags->bits, "directory: 2^N buckets (default 16)");
  verb->add_option("--tokens", flags->tokens, "ring: tokens a node (default 160)");
  verb->add_option("--replication", flags->replication, "copies of a range (default 1)");
  verb->add_flag("--best-effort", flags->best_effort, "let copies share a zone if they must");
}

}  // namespace

void AddKeyspaceSim(CLI::App* noun, Run* run) {
  CLI::App* sim = noun->add_subcommand(
      "sim", "what a change would move, offline: on an exported keyspace or a description");
  sim->require_subcommand(1);
  auto flags = std::make_shared<SimFlags>();
  const auto offline = [run, flags](CLI::App* verb, ChangeOf change_of) {
    AddBase(verb, flags);
    verb->callback([run, flags, change_of] {
      *run =
          Run::Offline([flags, change_of](Session& s) { return Simulated(s, *flags, change_of); });
    });
  };
  CLI::App* add = sim->add_subcommand("add", "nodes join");
  add->add_option("count", flags->count, "how many (default 1)");
  add->add_option("--weight", flags->weight, "of each (default 1)");
  add->add_option("--zone", flags->zone, "of each");
  offline(add, Additions);
  CLI::App* remove = sim->add_subcommand("remove", "nodes leave");
  remove->add_option("nodes", flags->ids, "their ids")->required();
  offline(remove, Removals);
  CLI::App* weight = sim->add_subcommand("weight", "nodes get another weight");
  weight->add_option("nodes", flags->ids, "NODE=WEIGHT")->required();
  offline(weight, Weights);
}

}  // namespace warmring::cli
