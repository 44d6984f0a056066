#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/cli/plan_flags.h"
#include "client/cli/render/overrides.h"
#include "client/cli/verbs.h"
#include "core/base/ids.h"

namespace warmring::cli {
namespace {

// Which keys, in one of four ways.
struct RuleFlags {
  std::string key;
  std::string prefix;
  std::string key_hex;
  std::string prefix_hex;

  void AddTo(CLI::App& app) {
    CLI::Option_group* rule = app.add_option_group("rule", "which keys");
    rule->add_option("--key", key, "the one key");
    rule->add_option("--prefix", prefix, "all keys that begin so");
    rule->add_option("--key-hex", key_hex, "as --key, in hex digits");
    rule->add_option("--prefix-hex", prefix_hex, "as --prefix, in hex digits");
    rule->require_option(1);
  }
  absl::StatusOr<v1::OverrideRule> ToRule() const;
};

std::optional<std::string> BytesOfHex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]);
    const size_t low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

absl::StatusOr<v1::OverrideRule> RuleFlags::ToRule() const {
  v1::OverrideRule rule;
  if (!key.empty()) rule.set_key(key);
  if (!prefix.empty()) rule.set_prefix(prefix);
  for (const auto& [flag, text, is_key] :
       {std::tuple("--key-hex", key_hex, true), std::tuple("--prefix-hex", prefix_hex, false)}) {
    if (text.empty()) continue;
    const std::optional<std::string> bytes = BytesOfHex(text);
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: '{}': use lower-case hex digits, two for each byte", flag, Printable(text)));
    }
    if (is_key) {
      rule.set_key(*bytes);
    } else {
      rule.set_prefix(*bytes);
    }
  }
  if (rule.match_case() == v1::OverrideRule::MATCH_NOT_SET) {
    return absl::InvalidArgumentError("--key, --prefix: it is empty: name at least one byte");
  }
  return rule;
}

ExitCode List(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::GetMembershipRequest request;
  request.set_keyspace(*keyspace);
  v1::GetMembershipResponse response;
  const grpc::Status status =
      session.keyspaces().GetMembership(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    v1::Membership only;
    only.set_version(response.membership().version());
    *only.mutable_nodes() = response.membership().nodes();
    *only.mutable_overrides() = response.membership().overrides();
    session.PrintJson(only);
    return ExitCode::kDone;
  }
  if (response.membership().overrides().empty()) {
    std::cout << fmt::format("keyspace {} has no overrides at v{}: all keys go by their hash\n",
                             *keyspace, response.membership().version());
    return ExitCode::kDone;
  }
  std::cout << RenderOverrides(response.membership());
  return ExitCode::kDone;
}

// A plan with this one change.
ExitCode Submit(Session& session, const PlanFlags& flags, const RuleFlags& rule_flags,
                const std::function<void(const v1::OverrideRule&, v1::Change*)>& fill) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  const absl::StatusOr<v1::OverrideRule> rule = rule_flags.ToRule();
  if (!rule.ok()) return session.Usage(std::string(rule.status().message()));
  absl::StatusOr<v1::MigrationPlan> plan = flags.ToPlan();
  if (!plan.ok()) return session.Usage(std::string(plan.status().message()));
  plan->set_keyspace(*keyspace);
  plan->set_reason(session.flags().reason);
  fill(*rule, plan->add_changes());
  return SubmitPlan(session, *plan, flags.dry_run, flags.detach);
}

}  // namespace

void AddOverride(CLI::App& app, Run* run) {
  CLI::App* noun =
      app.add_subcommand("override", "keys with nodes of their own: one key, or all with a prefix");
  noun->require_subcommand(1);

  noun->add_subcommand("list", "the overrides and who has their keys")->callback([run] {
    *run = List;
  });

  struct SetFlags {
    RuleFlags rule;
    std::vector<std::string> nodes;
    PlanFlags plan;
  };
  auto set_flags = std::make_shared<SetFlags>();
  CLI::App* set = noun->add_subcommand(
      "set", "give keys to nodes of their own: preview, question, staged migration");
  set_flags->rule.AddTo(*set);
  set->add_option("--to", set_flags->nodes, "members; several share the keys evenly")
      ->delimiter(',')
      ->required();
  set_flags->plan.AddTo(*set);
  set->callback([run, set_flags] {
    *run = [set_flags](Session& s) {
      return Submit(s, set_flags->plan, set_flags->rule,
                    [&](const v1::OverrideRule& rule, v1::Change* change) {
                      *change->mutable_set_override()->mutable_rule() = rule;
                      for (const std::string& node : set_flags->nodes) {
                        change->mutable_set_override()->add_nodes(node);
                      }
                    });
    };
  });

  struct RemoveFlags {
    RuleFlags rule;
    PlanFlags plan;
  };
  auto remove_flags = std::make_shared<RemoveFlags>();
  CLI::App* remove =
      noun->add_subcommand("remove", "give the keys back to the nodes that they hash to");
  remove_flags->rule.AddTo(*remove);
  remove_flags->plan.AddTo(*remove);
  remove->callback([run, remove_flags] {
    *run = [remove_flags](Session& s) {
      return Submit(s, remove_flags->plan, remove_flags->rule,
                    [](const v1::OverrideRule& rule, v1::Change* change) {
                      *change->mutable_remove_override()->mutable_rule() = rule;
                    });
    };
  });
}

}  // namespace warmring::cli
