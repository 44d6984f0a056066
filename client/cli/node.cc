#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "client/cli/plan_flags.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"

namespace warmring::cli {
namespace {

ExitCode List(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::ListNodesRequest request;
  request.set_keyspace(*keyspace);
  v1::ListNodesResponse all;
  do {
    v1::ListNodesResponse page;
    const grpc::Status status = session.keyspaces().ListNodes(session.Call().get(), request, &page);
    if (!status.ok()) return session.Fail(status);
    all.MergeFrom(page);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (session.json()) {
    all.clear_next_page_token();
    session.PrintJson(all);
    return ExitCode::kDone;
  }
  Table table({{"--"},
               {"NODE"},
               {"ADDRESS"},
               {"ZONE"},
               {"WEIGHT", true},
               {"SHARE", true},
               {"IDEAL", true},
               {"KEYS", true},
               {"USED", true},
               {"LEASE", true},
               {"VERSION", true}});
  for (const auto& n : all.nodes()) {
    table.AddRow({n.state(), n.node().id(), n.node().address(),
                  n.node().zone().empty() ? "-" : n.node().zone(),
                  fmt::format("{:g}", n.node().has_weight() ? n.node().weight() : 1.0),
                  FormatShare(n.share()), FormatShare(n.ideal_share()), FormatCount(n.keys()),
                  FormatBytes(n.bytes()),
                  n.lease_remaining_ms() > 0 ? fmt::format("{} ms", n.lease_remaining_ms()) : "-",
                  fmt::format("v{}", n.applied_version())});
  }
  std::cout << "UN up  UW up and warming  UL up and leaving  DN no session\n" << table.ToString();
  return ExitCode::kDone;
}

}  // namespace

void AddNode(CLI::App& app, Run* run) {
  CLI::App* noun = app.add_subcommand("node", "members of a keyspace");
  noun->require_subcommand(1);

  struct AddFlags {
    std::string id;
    std::string address;
    double weight = 1.0;
    std::string zone;
    PlanFlags plan;
  };
  auto add_flags = std::make_shared<AddFlags>();
  CLI::App* add = noun->add_subcommand("add", "add a node: preview, question, staged migration");
  add->add_option("node", add_flags->id, "the node's id")->required();
  add->add_option("--address", add_flags->address, "host:port of its data service")->required();
  add->add_option("--weight", add_flags->weight, "0.01 to 1000 (default 1)");
  add->add_option("--zone", add_flags->zone, "failure domain");
  add_flags->plan.AddTo(*add);
  add->callback([run, add_flags] {
    *run = [add_flags](Session& s) {
      v1::Change change;
      v1::Node* node = change.mutable_add()->mutable_node();
      node->set_id(add_flags->id);
      node->set_address(add_flags->address);
      node->set_weight(add_flags->weight);
      node->set_zone(add_flags->zone);
      return SubmitChange(s, add_flags->plan, std::move(change));
    };
  });

  struct RemoveFlags {
    std::string id;
    bool dead = false;
    PlanFlags plan;
  };
  auto remove_flags = std::make_shared<RemoveFlags>();
  CLI::App* remove = noun->add_subcommand("remove", "remove a node by a staged migration");
  remove->add_option("node", remove_flags->id, "the node's id")->required();
  remove->add_flag("--dead", remove_flags->dead,
                   "fail over: it is dead, others take over when its lease is over");
  remove_flags->plan.AddTo(*remove);
  remove->callback([run, remove_flags] {
    *run = [remove_flags](Session& s) {
      v1::Change change;
      change.mutable_remove()->set_node(remove_flags->id);
      change.mutable_remove()->set_dead(remove_flags->dead);
      return SubmitChange(s, remove_flags->plan, std::move(change));
    };
  });

  struct ReplaceFlags {
    std::string id;
    std::string by;
    std::string address;
    double weight = 1.0;
    std::string zone;
    bool dead = false;
    PlanFlags plan;
  };
  auto replace_flags = std::make_shared<ReplaceFlags>();
  CLI::App* replace = noun->add_subcommand(
      "replace", "a new node takes exactly what a member has, which then leaves");
  replace->add_option("node", replace_flags->id, "the member's id")->required();
  replace->add_option("by", replace_flags->by, "the new node's id")->required();
  replace->add_option("--address", replace_flags->address, "host:port of its data service")
      ->required();
  replace->add_option("--weight", replace_flags->weight, "0.01 to 1000 (default 1)");
  replace->add_option("--zone", replace_flags->zone, "failure domain");
  replace->add_flag(
      "--dead", replace_flags->dead,
      "fail over: the member is dead, the new node takes over when its lease is over");
  replace_flags->plan.AddTo(*replace);
  replace->callback([run, replace_flags] {
    *run = [replace_flags](Session& s) {
      v1::Change change;
      v1::ReplaceNode* by = change.mutable_replace();
      by->set_node(replace_flags->id);
      by->set_dead(replace_flags->dead);
      by->mutable_by()->set_id(replace_flags->by);
      by->mutable_by()->set_address(replace_flags->address);
      by->mutable_by()->set_weight(replace_flags->weight);
      by->mutable_by()->set_zone(replace_flags->zone);
      return SubmitChange(s, replace_flags->plan, std::move(change));
    };
  });

  struct WeightFlags {
    std::string id;
    double weight = 0;
    PlanFlags plan;
  };
  auto weight_flags = std::make_shared<WeightFlags>();
  CLI::App* weight = noun->add_subcommand(
      "weight", "give a node another weight and move what balance needs (directory)");
  weight->add_option("node", weight_flags->id, "the node's id")->required();
  weight->add_option("weight", weight_flags->weight, "0.01 to 1000")->required();
  weight_flags->plan.AddTo(*weight);
  weight->callback([run, weight_flags] {
    *run = [weight_flags](Session& s) {
      v1::Change change;
      change.mutable_set_weight()->set_node(weight_flags->id);
      change.mutable_set_weight()->set_weight(weight_flags->weight);
      return SubmitChange(s, weight_flags->plan, std::move(change));
    };
  });

  noun->add_subcommand("list", "nodes with share, session and lease")->callback([run] {
    *run = List;
  });
}

}  // namespace warmring::cli
