#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/cli/number_list.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"

namespace warmring::cli {
namespace {

constexpr char kBucketsHelp[] = "buckets: 1,2,5-9";

absl::StatusOr<std::vector<uint32_t>> BucketsOf(const std::vector<std::string>& texts) {
  std::vector<uint32_t> all;
  for (const std::string& text : texts) {
    const absl::StatusOr<std::vector<uint32_t>> buckets = ParseBuckets(text);
    if (!buckets.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--buckets: {}", std::string(buckets.status().message())));
    }
    all.insert(all.end(), buckets->begin(), buckets->end());
  }
  return all;
}

ExitCode ShowPins(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::GetMembershipRequest request;
  request.set_keyspace(*keyspace);
  v1::GetMembershipResponse response;
  const grpc::Status status =
      session.keyspaces().GetMembership(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  const v1::Membership& membership = response.membership();
  if (session.json()) {
    nlohmann::json pins = nlohmann::json::array();
    for (const v1::Pin& pin : membership.pins()) {
      pins.push_back({{"bucket", pin.bucket()}, {"node", pin.node()}});
    }
    std::cout
        << nlohmann::json({{"version", membership.version()}, {"pins", std::move(pins)}}).dump(2)
        << "\n";
    return ExitCode::kDone;
  }
  if (membership.pins().empty()) {
    std::cout << fmt::format("no bucket of {} is pinned at v{}\n", *keyspace, membership.version());
    return ExitCode::kDone;
  }
  // Buckets that follow each other on one node are one row, in the words of --buckets.
  Table table({{"BUCKETS"}, {"COUNT", true}, {"NODE"}});
  for (int i = 0; i < membership.pins_size();) {
    int end = i + 1;
    while (end < membership.pins_size() &&
           membership.pins(end).node() == membership.pins(i).node() &&
           membership.pins(end).bucket() == membership.pins(end - 1).bucket() + 1) {
      ++end;
    }
    const uint32_t first = membership.pins(i).bucket();
    const uint32_t last = membership.pins(end - 1).bucket();
    table.AddRow({first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last),
                  fmt::format("{}", end - i), membership.pins(i).node()});
    i = end;
  }
  std::cout << table.ToString();
  return ExitCode::kDone;
}

struct GrowFlags {
  uint32_t bits = 0;
  uint64_t base_version = 0;
  bool dry_run = false;
};

ExitCode Grow(Session& session, const GrowFlags& flags) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::GrowDirectoryRequest request;
  request.set_keyspace(*keyspace);
  request.set_directory_bits(flags.bits);
  request.set_base_version(flags.base_version);
  request.set_request_id(session.flags().request_id);
  request.set_reason(session.flags().reason);
  request.set_validate_only(flags.dry_run);
  v1::GrowDirectoryResponse response;
  const grpc::Status status =
      session.keyspaces().GrowDirectory(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response.keyspace());
    return ExitCode::kDone;
  }
  std::cout << fmt::format("keyspace {} {} 2^{} buckets at v{}: no key changed its owner\n",
                           *keyspace, flags.dry_run ? "would have" : "has",
                           response.keyspace().spec().directory_bits(),
                           response.keyspace().version());
  return ExitCode::kDone;
}

void AddGrow(CLI::App* noun, Run* run) {
  auto flags = std::make_shared<GrowFlags>();
  CLI::App* grow = noun->add_subcommand(
      "grow", "divide every bucket of a directory; no key changes its owner or epoch");
  grow->add_option("--bits", flags->bits, "2^N buckets, up to 20")->required();
  grow->add_option("--base-version", flags->base_version,
                   "refuse when the membership has moved on");
  grow->add_flag("--dry-run", flags->dry_run, "check only");
  grow->callback([run, flags] { *run = [flags](Session& s) { return Grow(s, *flags); }; });
}

struct BucketFlags {
  std::vector<std::string> buckets;
  std::string to;
  bool pin = false;
  PlanFlags plan;
};

void AddMoveBuckets(CLI::App* noun, Run* run) {
  auto flags = std::make_shared<BucketFlags>();
  CLI::App* move = noun->add_subcommand(
      "move-buckets", "give buckets to a node: preview, question, staged migration");
  move->add_option("--buckets", flags->buckets, kBucketsHelp)->required()->delimiter(',');
  move->add_option("--to", flags->to, "the node's id")->required();
  move->add_flag("--pin", flags->pin, "no later plan moves them for balance");
  flags->plan.AddTo(*move);
  move->callback([run, flags] {
    *run = [flags](Session& s) {
      const absl::StatusOr<std::vector<uint32_t>> buckets = BucketsOf(flags->buckets);
      if (!buckets.ok()) return s.Usage(std::string(buckets.status().message()));
      v1::Change change;
      v1::MoveBuckets* out = change.mutable_move_buckets();
      out->mutable_buckets()->Add(buckets->begin(), buckets->end());
      out->set_to(flags->to);
      out->set_pin(flags->pin);
      return SubmitChange(s, flags->plan, std::move(change));
    };
  });
}

void AddUnpin(CLI::App* noun, Run* run) {
  auto flags = std::make_shared<BucketFlags>();
  CLI::App* unpin =
      noun->add_subcommand("unpin", "let later plans move these buckets again; nothing moves now");
  unpin->add_option("--buckets", flags->buckets, kBucketsHelp)->required()->delimiter(',');
  flags->plan.AddTo(*unpin);
  unpin->callback([run, flags] {
    *run = [flags](Session& s) {
      const absl::StatusOr<std::vector<uint32_t>> buckets = BucketsOf(flags->buckets);
      if (!buckets.ok()) return s.Usage(std::string(buckets.status().message()));
      v1::Change change;
      change.mutable_unpin()->mutable_buckets()->Add(buckets->begin(), buckets->end());
      return SubmitChange(s, flags->plan, std::move(change));
    };
  });
}

struct RebalanceFlags {
  std::string load;
  uint32_t tolerance_ppm = 0;
  CLI::Option* tolerance = nullptr;
  PlanFlags plan;
};

ExitCode Rebalance(Session& session, const RebalanceFlags& flags) {
  v1::Change change;
  v1::Rebalance* rebalance = change.mutable_rebalance();
  rebalance->set_by(flags.load.empty() ? v1::REBALANCE_BY_SHARE : v1::REBALANCE_BY_LOAD);
  if (flags.tolerance->count() > 0) {
    if (flags.load.empty()) return session.Usage("--tolerance-ppm: it needs --load FILE");
    rebalance->set_tolerance_ppm(flags.tolerance_ppm);
  }
  if (!flags.load.empty()) {
    const absl::StatusOr<std::vector<uint64_t>> load = ReadLoadFile(flags.load);
    if (!load.ok()) return session.Usage(std::string(load.status().message()));
    rebalance->mutable_bucket_load()->Add(load->begin(), load->end());
  }
  return SubmitChange(session, flags.plan, std::move(change));
}

void AddRebalance(CLI::App* noun, Run* run) {
  auto flags = std::make_shared<RebalanceFlags>();
  CLI::App* rebalance =
      noun->add_subcommand("rebalance", "move buckets until shares, or loads, fit the weights");
  rebalance->add_option("--load", flags->load,
                        "load of each bucket: a number a line, or a JSON array");
  flags->tolerance = rebalance->add_option(
      "--tolerance-ppm", flags->tolerance_ppm,
      "with --load: leave a node that is so close to its target alone (default 10000)");
  flags->plan.AddTo(*rebalance);
  rebalance->callback(
      [run, flags] { *run = [flags](Session& s) { return Rebalance(s, *flags); }; });
}

}  // namespace

void AddKeyspaceBuckets(CLI::App* noun, Run* run) {
  noun->add_subcommand("pins", "buckets whose owner is chosen by hand")->callback([run] {
    *run = ShowPins;
  });
  AddGrow(noun, run);
  AddMoveBuckets(noun, run);
  AddUnpin(noun, run);
  AddRebalance(noun, run);
}

}  // namespace warmring::cli
