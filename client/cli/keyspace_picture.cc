// `keyspace balance`, `draw` and `export`: a keyspace as it is now.

#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "client/cli/render/balance.h"
#include "client/cli/verbs.h"
#include "core/base/ids.h"
#include "core/membership/encoding.h"
#include "core/placement/preference.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"

namespace warmring::cli {
namespace {

absl::StatusOr<Membership::Ptr> Fetch(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return keyspace.status();
  v1::GetMembershipRequest request;
  request.set_keyspace(*keyspace);
  v1::GetMembershipResponse response;
  const grpc::Status status =
      session.keyspaces().GetMembership(session.Call().get(), request, &response);
  if (!status.ok()) return wire::FromGrpcStatus(status);
  return wire::MembershipFromProto(response.membership());
}

ExitCode ShowBalance(Session& session) {
  const absl::StatusOr<Membership::Ptr> membership = Fetch(session);
  if (!membership.ok()) return session.Fail(membership.status());
  if (!session.json()) {
    std::cout << RenderBalance(**membership);
    return ExitCode::kDone;
  }
  const Balance balance = BalanceOf(**membership);
  nlohmann::json json = {{"keyspace", (*membership)->spec().id},
                         {"version", (*membership)->version().value},
                         {"max_over_mean", balance.max_over_mean},
                         {"min_over_mean", balance.min_over_mean},
                         {"domain_violations", CountDomainViolations(**membership)},
                         {"nodes", nlohmann::json::array()}};
  for (const NodeBalance& node : balance.nodes) {
    json["nodes"].push_back({{"node", (*membership)->nodes()[node.node].id},
                             {"owned", node.owned},
                             {"ideal", node.ideal},
                             {"followed", node.followed},
                             {"ranges", node.ranges}});
  }
  std::cout << json.dump(2) << "\n";
  return ExitCode::kDone;
}

ExitCode Draw(Session& session) {
  const absl::StatusOr<Membership::Ptr> membership = Fetch(session);
  if (!membership.ok()) return session.Fail(membership.status());
  std::cout << RenderSpace(**membership);
  return ExitCode::kDone;
}

ExitCode Export(Session& session, const std::string& file) {
  const absl::StatusOr<Membership::Ptr> membership = Fetch(session);
  if (!membership.ok()) return session.Fail(membership.status());
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << SealMembership(**membership);
  out.close();
  if (!out) {
    return session.Fail(absl::InvalidArgumentError(
        fmt::format("file: '{}' cannot be written: name one in a directory that you may write to",
                    Printable(file))));
  }
  std::cout << fmt::format("keyspace {} at v{} is in {}\n", (*membership)->spec().id,
                           (*membership)->version().value, Printable(file));
  return ExitCode::kDone;
}

}  // namespace

void AddKeyspacePicture(CLI::App* noun, Run* run) {
  noun->add_subcommand("balance", "who owns how much, beside its share by weight")->callback([run] {
    *run = ShowBalance;
  });
  noun->add_subcommand("draw", "the hash space as a strip of owners")->callback([run] {
    *run = Draw;
  });
  auto file = std::make_shared<std::string>();
  CLI::App* exported =
      noun->add_subcommand("export", "write the membership to a file, for `keyspace sim --from`");
  exported->add_option("file", *file, "the file")->required();
  exported->callback([run, file] { *run = [file](Session& s) { return Export(s, *file); }; });
}

}  // namespace warmring::cli
