#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/node_flag.h"
#include "client/cli/render/overrides.h"
#include "client/cli/render/preview.h"
#include "client/cli/render/table.h"
#include "client/cli/verbs.h"
#include "core/base/ids.h"

namespace warmring::cli {
namespace {

struct CreateFlags {
  std::string name;
  std::vector<std::string> nodes;
  std::string placement = "directory";
  uint32_t bits = 0;
  uint32_t tokens = 0;
  v1::HashFunction hash = v1::HASH_FUNCTION_XXH3;
  bool hash_tags = false;
  uint32_t replication = 1;
  std::string allocator;
  std::string failure_domain;
  bool best_effort = false;
  std::string on_restart = "purge";
  uint32_t origin_fill_qps = 0;
  uint32_t grace_ms = 0;
};

const char* PlacementWord(const v1::KeyspaceSpec& spec) {
  return spec.placement() == v1::PLACEMENT_KIND_RING ? "ring" : "directory";
}

std::string Unit(const v1::KeyspaceSpec& spec) {
  return spec.placement() == v1::PLACEMENT_KIND_RING
             ? fmt::format("{} tokens a node", spec.tokens_per_node())
             : fmt::format("2^{} buckets", spec.directory_bits());
}

// "3 in different zones", and what breaks that.
std::string Copies(const v1::Keyspace& keyspace) {
  const v1::KeyspaceSpec& spec = keyspace.spec();
  if (spec.replication() == 1) return "1";
  const char* level = spec.failure_domain() == v1::DOMAIN_LEVEL_ZONE   ? "zone"
                      : spec.failure_domain() == v1::DOMAIN_LEVEL_RACK ? "rack"
                                                                       : "node";
  std::string text = fmt::format("{} in different {}s", spec.replication(), level);
  if (keyspace.domain_violations() > 0) {
    text += fmt::format(", but {} are not", keyspace.domain_violations());
  }
  return text;
}

ExitCode Create(Session& session, const CreateFlags& flags) {
  v1::CreateKeyspaceRequest request;
  v1::KeyspaceSpec* spec = request.mutable_spec();
  spec->set_id(flags.name);
  spec->set_placement(flags.placement == "ring" ? v1::PLACEMENT_KIND_RING
                                                : v1::PLACEMENT_KIND_DIRECTORY);
  spec->set_directory_bits(flags.bits);
  spec->set_tokens_per_node(flags.tokens);
  spec->set_hash_function(flags.hash);
  spec->set_hash_tags(flags.hash_tags);
  spec->set_replication(flags.replication);
  if (flags.allocator == "rendezvous") spec->set_allocator(v1::ALLOCATOR_RENDEZVOUS);
  if (flags.allocator == "deliberate") spec->set_allocator(v1::ALLOCATOR_DELIBERATE);
  if (flags.failure_domain == "node") spec->set_failure_domain(v1::DOMAIN_LEVEL_NODE);
  if (flags.failure_domain == "rack") spec->set_failure_domain(v1::DOMAIN_LEVEL_RACK);
  if (flags.failure_domain == "zone") spec->set_failure_domain(v1::DOMAIN_LEVEL_ZONE);
  spec->set_best_effort_domains(flags.best_effort);
  spec->set_on_restart(flags.on_restart == "trust" ? v1::ON_RESTART_TRUST : v1::ON_RESTART_PURGE);
  spec->set_origin_fill_qps(flags.origin_fill_qps);
  spec->set_grace_ms(flags.grace_ms);
  for (const std::string& text : flags.nodes) {
    absl::StatusOr<v1::Node> node = ParseNodeFlag("--add", text);
    if (!node.ok()) return session.Usage(std::string(node.status().message()));
    *request.add_nodes() = *std::move(node);
  }
  request.set_request_id(session.flags().request_id);
  request.set_reason(session.flags().reason);
  v1::CreateKeyspaceResponse response;
  const grpc::Status status =
      session.keyspaces().CreateKeyspace(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response.keyspace());
  } else {
    const auto& k = response.keyspace();
    std::cout << fmt::format("keyspace {} created at v{}: {} ({}), {} nodes, max/mean {:.3f}\n",
                             k.spec().id(), k.version(), PlacementWord(k.spec()), Unit(k.spec()),
                             k.node_count(), k.max_over_mean());
  }
  return ExitCode::kDone;
}

ExitCode List(Session& session) {
  v1::ListKeyspacesRequest request;
  v1::ListKeyspacesResponse all;
  do {
    v1::ListKeyspacesResponse page;
    const grpc::Status status =
        session.keyspaces().ListKeyspaces(session.Call().get(), request, &page);
    if (!status.ok()) return session.Fail(status);
    all.MergeFrom(page);
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (session.json()) {
    all.clear_next_page_token();
    session.PrintJson(all);
    return ExitCode::kDone;
  }
  Table table({{"KEYSPACE"},
               {"VERSION", true},
               {"PLACEMENT"},
               {"UNITS"},
               {"NODES", true},
               {"MAX/MEAN", true},
               {"MOVING"}});
  for (const auto& k : all.keyspaces()) {
    table.AddRow({k.spec().id(), fmt::format("v{}", k.version()), PlacementWord(k.spec()),
                  Unit(k.spec()), fmt::format("{}", k.node_count()),
                  fmt::format("{:.3f}", k.max_over_mean()),
                  k.active_migration().empty() ? "-" : absl::StrJoin(k.active_migrations(), ",")});
  }
  std::cout << table.ToString();
  return ExitCode::kDone;
}

ExitCode Get(Session& session) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::GetKeyspaceRequest request;
  request.set_keyspace(*keyspace);
  v1::GetKeyspaceResponse response;
  const grpc::Status status =
      session.keyspaces().GetKeyspace(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response.keyspace());
    return ExitCode::kDone;
  }
  const auto& k = response.keyspace();
  std::cout << fmt::format(
      "keyspace    {}\nversion     v{}\nhistory     {}\nplacement   {} ({})\nnodes       {}\n"
      "copies      {}\nmax/mean    {:.3f}\nwatchers    {}\nmoving      {}\n",
      k.spec().id(), k.version(), k.history(), PlacementWord(k.spec()), Unit(k.spec()),
      k.node_count(), Copies(k), k.max_over_mean(), k.watchers(),
      k.active_migration().empty() ? "-" : absl::StrJoin(k.active_migrations(), ","));
  return ExitCode::kDone;
}

ExitCode Locate(Session& session, const std::vector<std::string>& keys) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::LocateRequest request;
  request.set_keyspace(*keyspace);
  for (const std::string& key : keys) request.add_keys(key);
  v1::LocateResponse response;
  const grpc::Status status = session.keyspaces().Locate(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response);
    return ExitCode::kDone;
  }
  const bool replicated =
      std::any_of(response.locations().begin(), response.locations().end(),
                  [](const v1::KeyLocation& l) { return l.followers_size() > 0; });
  std::vector<Table::Column> columns = {{"KEY"},     {"HASH"},        {"VERSION", true}, {"OWNER"},
                                        {"ADDRESS"}, {"EPOCH", true}, {"MOVING"}};
  if (replicated) columns.push_back({"FOLLOWERS"});
  const bool overridden = std::any_of(response.locations().begin(), response.locations().end(),
                                      [](const v1::KeyLocation& l) { return l.has_override(); });
  if (overridden) columns.push_back({"OVERRIDE"});
  Table table(columns);
  for (const auto& l : response.locations()) {
    std::string moving = "-";
    if (!l.pending().empty()) {
      moving = fmt::format("{}: warming {} (deletes go to both)", l.migration(), l.pending());
    } else if (!l.previous().empty()) {
      moving = fmt::format("{}: was {} (grace reads)", l.migration(), l.previous());
    }
    std::vector<std::string> row = {Printable(l.key()),
                                    fmt::format("{:016x}", l.hash()),
                                    fmt::format("v{}", response.version()),
                                    l.owner(),
                                    l.address(),
                                    fmt::format("{}", l.epoch()),
                                    moving};
    if (replicated) row.push_back(absl::StrJoin(l.followers(), ", "));
    if (overridden) row.push_back(l.has_override() ? FormatRule(l.override()) : "-");
    table.AddRow(row);
  }
  std::cout << table.ToString();
  return ExitCode::kDone;
}

ExitCode History(Session& session, uint32_t limit) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  v1::ListVersionsRequest request;
  request.set_keyspace(*keyspace);
  request.set_page_size(limit);
  v1::ListVersionsResponse response;
  const grpc::Status status =
      session.keyspaces().ListVersions(session.Call().get(), request, &response);
  if (!status.ok()) return session.Fail(status);
  if (session.json()) {
    session.PrintJson(response);
    return ExitCode::kDone;
  }
  Table table({{"VERSION", true},
               {"WHEN"},
               {"BY"},
               {"CHANGE"},
               {"MOVED", true},
               {"MIGRATION"},
               {"REASON"}});
  for (const auto& v : response.versions()) {
    const absl::Time time = absl::FromUnixSeconds(v.commit_time().seconds());
    table.AddRow({fmt::format("v{}", v.version()),
                  absl::FormatTime("%Y-%m-%d %H:%M:%SZ", time, absl::UTCTimeZone()), v.author(),
                  v.change(), v.moved_share() > 0 ? FormatShare(v.moved_share()) : "-",
                  v.migration().empty() ? "-" : v.migration(), v.reason()});
  }
  std::cout << table.ToString();
  return ExitCode::kDone;
}

}  // namespace

void AddKeyspace(CLI::App& app, Run* run) {
  CLI::App* noun = app.add_subcommand("keyspace", "routing domains");
  noun->alias("ks");
  noun->require_subcommand(1);

  auto flags = std::make_shared<CreateFlags>();
  CLI::App* create = noun->add_subcommand("create", "create a keyspace with its first nodes");
  create->add_option("name", flags->name, "the keyspace's id")->required();
  create->add_option("--add", flags->nodes, "NODE=HOST:PORT[,weight=W][,zone=Z][,rack=R]; repeat")
      ->required();
  create->add_option("--placement", flags->placement, "directory or ring")
      ->check(CLI::IsMember({"directory", "ring"}));
  create
      ->add_option("--allocator", flags->allocator,
                   "standard; rendezvous (directory); deliberate (ring: few tokens, even shares)")
      ->check(CLI::IsMember({"standard", "rendezvous", "deliberate"}));
  create->add_option("--buckets-log2", flags->bits, "directory: 2^N buckets (default 14)");
  create->add_option("--tokens", flags->tokens, "ring: tokens a node (default 160)");
  create->add_option("--hash", flags->hash, "xxh3 (default), xxh64, murmur3, ketama or crc16")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, v1::HashFunction>{{"xxh3", v1::HASH_FUNCTION_XXH3},
                                                  {"xxh64", v1::HASH_FUNCTION_XXH64},
                                                  {"murmur3", v1::HASH_FUNCTION_MURMUR3},
                                                  {"ketama", v1::HASH_FUNCTION_KETAMA},
                                                  {"crc16", v1::HASH_FUNCTION_CRC16}}));
  create->add_flag("--hash-tags", flags->hash_tags, "hash only what stands in {braces}");
  create->add_option("--replication", flags->replication, "owners a range (default 1)");
  create
      ->add_option("--failure-domain", flags->failure_domain,
                   "node, rack or zone: copies of a range stand in different ones (default node)")
      ->check(CLI::IsMember({"node", "rack", "zone"}));
  create->add_flag("--best-effort", flags->best_effort,
                   "with fewer failure domains than copies: let copies share one");
  create->add_option("--on-restart", flags->on_restart, "purge or trust the data of a restart")
      ->check(CLI::IsMember({"purge", "trust"}));
  create->add_option("--origin-fill-qps", flags->origin_fill_qps,
                     "origin fills a second for all clients together (default: no bound)");
  create->add_option("--grace-ms", flags->grace_ms,
                     "time after a commit for reads of the previous owner (default 60000)");
  create->callback([run, flags] { *run = [flags](Session& s) { return Create(s, *flags); }; });

  AddKeyspaceImport(noun, run);
  AddKeyspacePicture(noun, run);
  AddKeyspaceSim(noun, run);
  AddKeyspaceBuckets(noun, run);

  noun->add_subcommand("list", "all keyspaces")->callback([run] { *run = List; });
  noun->add_subcommand("get", "one keyspace")->callback([run] { *run = Get; });

  auto keys = std::make_shared<std::vector<std::string>>();
  CLI::App* locate = noun->add_subcommand("locate", "where keys go, as a client routes them");
  locate->add_option("keys", *keys, "keys")->required();
  locate->callback([run, keys] { *run = [keys](Session& s) { return Locate(s, *keys); }; });

  auto limit = std::make_shared<uint32_t>(50);
  CLI::App* history = noun->add_subcommand("history", "versions: who, when, why; newest first");
  history->add_option("--limit", *limit, "how many")->check(CLI::Range(1, 1000));
  history->callback([run, limit] { *run = [limit](Session& s) { return History(s, *limit); }; });
}

}  // namespace warmring::cli
