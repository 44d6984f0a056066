#include "server/service/keyspace_service.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/placement/allocator.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"
#include "server/service/explicit_placement.h"
#include "server/service/paging.h"

namespace warmring {
namespace {

constexpr int kMaxLocateKeys = 1000;
constexpr size_t kMaxReasonBytes = 1024;
constexpr char kMethodPrefix[] = "KeyspaceService/";

absl::Status BadField(std::string message) {
  return WithReason(absl::InvalidArgumentError(message), "BAD_FIELD");
}

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(wire::ToGrpcStatus(status));
  return reactor;
}

struct Moving {
  std::set<NodeId> to;
  std::set<NodeId> from;
};

Moving MovingNodes(const Membership& membership) {
  Moving moving;
  for (const Move& move : membership.moves()) {
    moving.to.insert(move.to);
    moving.from.insert(move.from);
  }
  return moving;
}

// A node that gives without taking, while nobody joins, is leaving.
const char* StateOf(const NodeId& node, bool connected, const Moving& moving, bool leaving) {
  if (!connected) return "DN";
  if (moving.to.contains(node) && !moving.from.contains(node) && !leaving) return "UW";
  return leaving ? "UL" : "UN";
}

absl::Status CheckReason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) return absl::OkStatus();
  return BadField(fmt::format("reason: {} bytes are over {}", reason.size(), kMaxReasonBytes));
}

absl::Status CheckNodes(const v1::CreateKeyspaceRequest& request, std::vector<Node>* nodes) {
  std::set<NodeId> seen;
  for (int i = 0; i < request.nodes_size(); ++i) {
    const std::string field = fmt::format("nodes[{}]", i);
    ASSIGN_OR_RETURN(Node node, wire::NodeFromProto(field, request.nodes(i)));
    RETURN_IF_ERROR(ValidateNode(field, node));
    if (!seen.insert(node.id).second) {
      return BadField(fmt::format("{}.id: '{}' is there already: each node has an id of its own",
                                  field, node.id));
    }
    nodes->push_back(std::move(node));
  }
  if (nodes->empty()) {
    return BadField("nodes: none is given: a keyspace begins with at least one node");
  }
  return absl::OkStatus();
}

}  // namespace

struct KeyspaceService::Creation {
  v1::CreateKeyspaceResponse* response = nullptr;
  grpc::ServerUnaryReactor* reactor = nullptr;
  RequestLog::Request request;
  KeyspaceSpec spec;
  std::vector<Node> nodes;
  std::vector<OwnedRange> ranges;  // empty: the allocator decides
  bool validate_only = false;

  void Finish(const absl::Status& status) const { reactor->Finish(wire::ToGrpcStatus(status)); }
};

grpc::ServerUnaryReactor* KeyspaceService::CreateKeyspace(grpc::CallbackServerContext* context,
                                                          const v1::CreateKeyspaceRequest* request,
                                                          v1::CreateKeyspaceResponse* response) {
  const std::string method = std::string(kMethodPrefix) + "CreateKeyspace";
  const absl::StatusOr<Caller> caller = env_.gate->Enter(*context, method, request->spec().id());
  if (!caller.ok()) return Refuse(context, caller.status());
  auto creation = std::make_shared<Creation>();
  const absl::StatusOr<KeyspaceSpec> spec = wire::KeyspaceSpecFromProto(request->spec());
  if (!spec.ok()) return Refuse(context, spec.status());
  creation->spec = *spec;
  absl::Status checked = ValidateKeyspaceSpec(creation->spec);
  if (checked.ok()) checked = CheckNodes(*request, &creation->nodes);
  if (checked.ok()) checked = ValidatePlacementSize(creation->spec, creation->nodes);
  if (checked.ok()) checked = CheckReason(request->reason());
  if (!checked.ok()) return Refuse(context, checked);
  if (request->has_placement()) {
    absl::StatusOr<std::vector<OwnedRange>> ranges =
        RangesOfPlacement(creation->spec, creation->nodes.size(), request->placement());
    if (!ranges.ok()) return Refuse(context, ranges.status());
    creation->ranges = *std::move(ranges);
  }
  creation->response = response;
  creation->reactor = context->DefaultReactor();
  creation->validate_only = request->validate_only();
  v1::CreateKeyspaceRequest body = *request;
  body.clear_request_id();
  creation->request =
      RequestLog::Describe(*caller, method, creation->spec.id, request->request_id(), body);
  creation->request.mutation.reason = request->reason();
  env_.requests->LookUp(creation->request, env_.creation_strand,
                        [this, creation](const absl::StatusOr<RequestLog::Earlier>& earlier) {
                          if (!earlier.ok()) return creation->Finish(earlier.status());
                          if (!*earlier) return Create(creation);
                          const absl::StatusOr<Keyspace*> keyspace =
                              env_.registry->Find((*earlier)->keyspace);
                          if (!keyspace.ok()) return creation->Finish(keyspace.status());
                          *creation->response->mutable_keyspace() = Describe(**keyspace, {});
                          creation->Finish(absl::OkStatus());
                        });
  return creation->reactor;
}

void KeyspaceService::Create(std::shared_ptr<Creation> creation) {
  if (env_.registry->Find(creation->spec.id).ok()) {
    return creation->Finish(WithReason(
        absl::AlreadyExistsError(fmt::format(
            "spec.id: keyspace '{}' exists: use it, or choose another id", creation->spec.id)),
        "ALREADY_EXISTS"));
  }
  VersionNote note;
  note.author = creation->request.mutation.caller.Name();
  note.change = creation->ranges.empty()
                    ? fmt::format("created with {} nodes", creation->nodes.size())
                    : fmt::format("adopted with {} nodes and {} ranges", creation->nodes.size(),
                                  creation->ranges.size());
  note.reason = creation->request.mutation.reason;
  absl::StatusOr<HeadChange> change =
      Keyspace::Create(env_.registry->identity().history, creation->spec, creation->nodes, note,
                       env_.clock->Wall(), creation->ranges);
  if (!change.ok()) return creation->Finish(change.status());
  if (creation->validate_only) {
    const Keyspace preview(change->next);
    *creation->response->mutable_keyspace() = Describe(preview, {});
    return creation->Finish(absl::OkStatus());
  }
  Committer::Request commit;
  commit.before = change->before;
  commit.batch = env_.registry->identity().Guard();
  commit.batch.Append(change->batch).Append(env_.requests->Rows(creation->request, ""));
  env_.committer->Commit(std::move(commit), env_.creation_strand,
                         [this, creation, change = *std::move(change)](const CommitResult& result) {
                           OnCreated(creation, change, result);
                         });
}

void KeyspaceService::OnCreated(const std::shared_ptr<Creation>& creation, const HeadChange& change,
                                const CommitResult& result) {
  if (!result.committed) {
    return creation->Finish(
        WithReason(absl::AlreadyExistsError(fmt::format(
                       "spec.id: '{}' was created meanwhile: use it, or choose another id",
                       creation->spec.id)),
                   "ALREADY_EXISTS"));
  }
  Keyspace* keyspace = env_.registry->Add(std::make_unique<Keyspace>(change.next));
  env_.runtimes->Add(keyspace);
  spdlog::info("keyspace {} was created with {} nodes", keyspace->id(), creation->nodes.size());
  *creation->response->mutable_keyspace() = Describe(*keyspace, {});
  creation->Finish(absl::OkStatus());
}

v1::Keyspace KeyspaceService::Describe(const Keyspace& keyspace,
                                       const std::vector<MigrationId>& active) const {
  return Describe(keyspace.head()->membership, active);
}

v1::Keyspace KeyspaceService::Describe(const Membership::Ptr& membership,
                                       const std::vector<MigrationId>& active) const {
  v1::Keyspace proto;
  *proto.mutable_spec() = wire::ToProto(membership->spec());
  proto.set_history(membership->history().ToString());
  proto.set_version(membership->version().value);
  proto.set_node_count(static_cast<uint32_t>(membership->nodes().size()));
  if (!active.empty()) proto.set_active_migration(active.front());
  for (const MigrationId& id : active) proto.add_active_migrations(id);
  const std::shared_ptr<const KeyspaceBalance> balance = balances_.Of(membership);
  proto.set_max_over_mean(balance->max_over_mean);
  proto.set_domain_violations(balance->domain_violations);
  proto.set_watchers(env_.watchers(membership->spec().id));
  return proto;
}

grpc::ServerUnaryReactor* KeyspaceService::GetKeyspace(grpc::CallbackServerContext* context,
                                                       const v1::GetKeyspaceRequest* request,
                                                       v1::GetKeyspaceResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "GetKeyspace", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<KeyspaceRuntime*> runtime = env_.runtimes->Find(request->keyspace());
  if (!runtime.ok()) return Refuse(context, runtime.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  (*runtime)->strand().Post([this, runtime = *runtime, response, reactor] {
    *response->mutable_keyspace() = Describe(runtime->keyspace(), runtime->conductor().ActiveIds());
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* KeyspaceService::ListKeyspaces(grpc::CallbackServerContext* context,
                                                         const v1::ListKeyspacesRequest* request,
                                                         v1::ListKeyspacesResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "ListKeyspaces", "");
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
  if (!page.ok()) return Refuse(context, page.status());
  std::vector<KeyspaceRuntime*> all = env_.runtimes->All();
  const size_t begin = std::min<size_t>(page->begin, all.size());
  const size_t end = std::min<size_t>(begin + page->size, all.size());
  response->set_next_page_token(NextToken(end, all.size()));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  DescribeAll({all.begin() + static_cast<std::ptrdiff_t>(begin),
               all.begin() + static_cast<std::ptrdiff_t>(end)},
              0, response, reactor);
  return reactor;
}

// Goes from strand to strand, since each knows what moves in its keyspace.
void KeyspaceService::DescribeAll(std::vector<KeyspaceRuntime*> runtimes, size_t next,
                                  v1::ListKeyspacesResponse* response,
                                  grpc::ServerUnaryReactor* reactor) const {
  if (next == runtimes.size()) return reactor->Finish(grpc::Status::OK);
  KeyspaceRuntime* runtime = runtimes[next];
  runtime->strand().Post([this, runtime, runtimes = std::move(runtimes), next, response, reactor] {
    *response->add_keyspaces() = Describe(runtime->keyspace(), runtime->conductor().ActiveIds());
    DescribeAll(runtimes, next + 1, response, reactor);
  });
}

grpc::ServerUnaryReactor* KeyspaceService::ListNodes(grpc::CallbackServerContext* context,
                                                     const v1::ListNodesRequest* request,
                                                     v1::ListNodesResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "ListNodes", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
  if (!page.ok()) return Refuse(context, page.status());
  const absl::StatusOr<KeyspaceRuntime*> runtime = env_.runtimes->Find(request->keyspace());
  if (!runtime.ok()) return Refuse(context, runtime.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  (*runtime)->strand().Post([this, runtime = *runtime, page = *page, response, reactor] {
    const Membership::Ptr membership = runtime->keyspace().head()->membership;
    const std::shared_ptr<const KeyspaceBalance> balance = balances_.Of(membership);
    const std::vector<double>& shares = balance->shares;
    const double total = balance->total_weight;
    const Moving moving = MovingNodes(*membership);
    const std::map<NodeId, OwnerStatus> owners = runtime->Describe();
    std::set<NodeId> leaving;
    for (const MigrationId& active : runtime->conductor().ActiveIds()) {
      const auto snapshot = runtime->conductor().Find(active);
      leaving.insert((*snapshot)->record.preview.nodes_removed.begin(),
                     (*snapshot)->record.preview.nodes_removed.end());
    }
    const size_t count = membership->nodes().size();
    const size_t end = std::min<size_t>(page.begin + page.size, count);
    for (size_t i = page.begin; i < end; ++i) {
      const Node& node = membership->nodes()[i];
      v1::NodeStatus* proto = response->add_nodes();
      *proto->mutable_node() = wire::ToProto(node);
      proto->set_share(shares[i]);
      proto->set_ideal_share(node.weight_milli / total);
      const auto owner = owners.find(node.id);
      const bool connected = owner != owners.end() && owner->second.connected;
      proto->set_state(StateOf(node.id, connected, moving, leaving.contains(node.id)));
      if (owner == owners.end()) continue;
      proto->set_connected(connected);
      proto->set_incarnation(owner->second.incarnation.ToString());
      proto->set_applied_version(owner->second.applied_version.value);
      proto->set_lease_remaining_ms(absl::ToInt64Milliseconds(owner->second.lease_left));
      proto->set_keys(owner->second.keys);
      proto->set_bytes(owner->second.bytes);
    }
    response->set_next_page_token(NextToken(end, count));
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* KeyspaceService::GetMembership(grpc::CallbackServerContext* context,
                                                         const v1::GetMembershipRequest* request,
                                                         v1::GetMembershipResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "GetMembership", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Keyspace*> keyspace = env_.registry->Find(request->keyspace());
  if (!keyspace.ok()) return Refuse(context, keyspace.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const Membership::Ptr head = (*keyspace)->head()->membership;
  const Version version(request->version());
  if (version == Version() || version == head->version()) {
    *response->mutable_membership() = wire::ToProto(*head);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  env_.committer->Read([keyspace = *keyspace, version, response, reactor](Store& store) {
    const absl::StatusOr<Membership::Ptr> membership = keyspace->MembershipAt(store, version);
    if (membership.ok()) *response->mutable_membership() = wire::ToProto(**membership);
    reactor->Finish(wire::ToGrpcStatus(membership.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* KeyspaceService::ListVersions(grpc::CallbackServerContext* context,
                                                        const v1::ListVersionsRequest* request,
                                                        v1::ListVersionsResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "ListVersions", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
  if (!page.ok()) return Refuse(context, page.status());
  const absl::StatusOr<Keyspace*> keyspace = env_.registry->Find(request->keyspace());
  if (!keyspace.ok()) return Refuse(context, keyspace.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  env_.committer->Read([keyspace = *keyspace, page = *page, response, reactor](Store& store) {
    // A token counts from the newest version that was the head at the first page, so that versions
    // committed between two pages shift nothing: it holds the next version to show.
    const Version head = keyspace->head()->membership->version();
    const Version newest = page.begin == 0 ? head : Version(std::min(page.begin, head.value));
    const auto versions = keyspace->Versions(store, newest, page.size);
    if (!versions.ok()) return reactor->Finish(wire::ToGrpcStatus(versions.status()));
    for (const Keyspace::VersionInfo& info : *versions) {
      v1::VersionInfo* proto = response->add_versions();
      proto->set_version(info.version.value);
      proto->mutable_commit_time()->set_seconds(absl::ToUnixSeconds(info.record.time));
      proto->set_author(info.record.author);
      proto->set_change(info.record.change);
      proto->set_moved_share(info.record.moved_share);
      proto->set_migration(info.record.migration);
      proto->set_reason(info.record.reason);
    }
    const uint64_t last = versions->empty() ? 1 : versions->back().version.value;
    response->set_next_page_token(last > 1 ? NextToken(last - 1, UINT64_MAX) : "");
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* KeyspaceService::GrowDirectory(grpc::CallbackServerContext* context,
                                                         const v1::GrowDirectoryRequest* request,
                                                         v1::GrowDirectoryResponse* response) {
  const std::string method = std::string(kMethodPrefix) + "GrowDirectory";
  const absl::StatusOr<Caller> caller = env_.gate->Enter(*context, method, request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  if (absl::Status bad = CheckReason(request->reason()); !bad.ok()) return Refuse(context, bad);
  const absl::StatusOr<KeyspaceRuntime*> found = env_.runtimes->Find(request->keyspace());
  if (!found.ok()) return Refuse(context, found.status());
  KeyspaceRuntime* runtime = *found;
  v1::GrowDirectoryRequest body = *request;
  body.clear_request_id();
  RequestLog::Request row =
      RequestLog::Describe(*caller, method, request->keyspace(),
                           request->validate_only() ? "" : request->request_id(), body);
  row.mutation.reason = request->reason();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Conductor::Growth growth;
  growth.directory_bits = request->directory_bits();
  growth.base_version = Version(request->base_version());
  growth.author = caller->Name();
  growth.reason = request->reason();
  growth.validate_only = request->validate_only();
  growth.extra = env_.requests->Rows(row, "");
  env_.requests->LookUp(
      row, &runtime->strand(),
      [this, runtime, growth = std::move(growth), response,
       reactor](const absl::StatusOr<RequestLog::Earlier>& earlier) {
        if (!earlier.ok()) return reactor->Finish(wire::ToGrpcStatus(earlier.status()));
        if (*earlier) {
          *response->mutable_keyspace() =
              Describe(runtime->keyspace(), runtime->conductor().ActiveIds());
          return reactor->Finish(grpc::Status::OK);
        }
        runtime->conductor().Grow(
            growth, [this, response, reactor](const absl::StatusOr<Membership::Ptr>& grown) {
              if (grown.ok()) *response->mutable_keyspace() = Describe(*grown, {});
              reactor->Finish(wire::ToGrpcStatus(grown.status()));
            });
      });
  return reactor;
}

grpc::ServerUnaryReactor* KeyspaceService::Locate(grpc::CallbackServerContext* context,
                                                  const v1::LocateRequest* request,
                                                  v1::LocateResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "Locate", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Keyspace*> keyspace = env_.registry->Find(request->keyspace());
  if (!keyspace.ok()) return Refuse(context, keyspace.status());
  if (request->keys().empty() || request->keys_size() > kMaxLocateKeys) {
    return Refuse(context,
                  BadField(fmt::format("keys: {} are given: 1 to {} can be located at once",
                                       request->keys_size(), kMaxLocateKeys)));
  }
  const Membership::Ptr membership = (*keyspace)->head()->membership;
  response->set_version(membership->version().value);
  response->set_history(membership->history().ToString());
  for (const std::string& key : request->keys()) {
    const Route route = RouteKey(*membership, key);
    v1::KeyLocation* location = response->add_locations();
    location->set_key(key);
    location->set_hash(route.hash);
    location->set_owner(membership->nodes()[route.owner].id);
    location->set_address(membership->nodes()[route.owner].address);
    location->set_epoch(route.epoch.value);
    if (route.pending) location->set_pending(membership->nodes()[*route.pending].id);
    if (route.previous) location->set_previous(membership->nodes()[*route.previous].id);
    const Override* const rule = membership->OverrideOn(route.plane);
    if (rule != nullptr) {
      *location->mutable_override() = wire::ToProto(rule->rule);
    } else {
      const size_t range = membership->RangeIndexOf(route.hash);
      for (const NodeIndex follower : membership->FollowersAt(range)) {
        if (follower != kNoNode) location->add_followers(membership->nodes()[follower].id);
      }
    }
    const int move = membership->MoveOf({route.hash, route.plane});
    if (move >= 0) {
      location->set_migration(membership->moves()[static_cast<size_t>(move)].migration);
    }
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace warmring
