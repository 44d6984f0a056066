#include "server/conductor/keyspace_runtime.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "server/conductor/migration_book.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

Sessions::Environment SessionsOf(const KeyspaceRuntime::Environment& environment,
                                 const Keyspace* keyspace, Executor* strand, Conductor* conductor) {
  Sessions::Environment sessions;
  sessions.clock = environment.clock;
  sessions.strand = strand;
  sessions.committer = environment.committer;
  sessions.keyspace = keyspace;
  sessions.identity = environment.identity;
  sessions.lease = environment.lease;
  sessions.on_change = [conductor] { conductor->OnSessionsChanged(); };
  sessions.on_report = [conductor](const TaskReport& report) { conductor->OnReport(report); };
  return sessions;
}

}  // namespace

KeyspaceRuntime::KeyspaceRuntime(Keyspace* keyspace, const Environment& environment)
    : keyspace_(keyspace),
      clock_(environment.clock),
      strand_(environment.pool->MakeStrand()),
      // The conductor's address is taken before it is built; it is used from the strand only, which
      // runs nothing before both are.
      sessions_(SessionsOf(environment, keyspace, strand_.get(), &conductor_)),
      conductor_(Conductor::Context{keyspace, environment.identity, environment.committer,
                                    strand_.get(), environment.clock, this, environment.publisher,
                                    environment.lease, environment.random}) {}

absl::Status KeyspaceRuntime::Load(Store& store) {
  const std::string prefix = schema::SessionsPrefix(keyspace_->id());
  ASSIGN_OR_RETURN(const std::vector<KeyValue> rows, ScanPrefix(store, prefix));
  for (const KeyValue& row : rows) {
    ASSIGN_OR_RETURN(const schema::SessionRecord record, schema::DecodeSession(row.value));
    sessions_.Restore(row.key.substr(prefix.size()), record);
  }
  ASSIGN_OR_RETURN(std::vector<migration_book::Entry> entries,
                   migration_book::Load(store, keyspace_->id()));
  strand_->Post([this, entries = std::move(entries)] { conductor_.Recover(entries); });
  return absl::OkStatus();
}

std::map<NodeId, OwnerStatus> KeyspaceRuntime::Describe() const {
  const Instant now = clock_->Boot();
  std::map<NodeId, OwnerStatus> owners;
  for (const auto& [node, status] : sessions_.Statuses()) {
    OwnerStatus& owner = owners[node];
    owner.connected = status.connected;
    owner.incarnation = status.incarnation;
    owner.applied_version = status.applied_version;
    owner.lease_left = std::max(absl::ZeroDuration(), status.belief_until - now);
    owner.keys = status.keys;
    owner.bytes = status.bytes;
    owner.data_address = status.data_address;
  }
  return owners;
}

std::map<NodeId, NodeFact> KeyspaceRuntime::NodeFacts() const {
  std::map<NodeId, NodeFact> facts;
  for (const auto& [node, status] : sessions_.Statuses()) {
    facts[node] = NodeFact{status.connected, status.keys, status.bytes, status.rdb_version};
  }
  return facts;
}

void KeyspaceRuntime::SetTasks(std::map<NodeId, std::vector<Task>> tasks) {
  std::map<NodeId, std::vector<Floor>> floors;
  for (const auto& [node, list] : tasks) {
    for (const Task& task : list) {
      if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
        floors[node].push_back({fence->ranges, fence->floor});
      }
    }
  }
  sessions_.SetWork(std::move(tasks), std::move(floors));
}

absl::Status KeyspaceRuntimes::LoadAll(Store& store) {
  for (Keyspace* keyspace : registry_->All()) {
    RETURN_IF_ERROR(Make(keyspace)->Load(store));
  }
  return absl::OkStatus();
}

KeyspaceRuntime* KeyspaceRuntimes::Add(Keyspace* keyspace) {
  environment_.publisher->Publish(keyspace->head()->membership, std::nullopt);
  return Make(keyspace);
}

KeyspaceRuntime* KeyspaceRuntimes::Make(Keyspace* keyspace) {
  auto runtime = std::make_unique<KeyspaceRuntime>(keyspace, environment_);
  KeyspaceRuntime* made = runtime.get();
  std::lock_guard lock(mutex_);
  runtimes_[keyspace->id()] = std::move(runtime);
  return made;
}

absl::StatusOr<KeyspaceRuntime*> KeyspaceRuntimes::Find(std::string_view id) const {
  {
    std::lock_guard lock(mutex_);
    if (const auto it = runtimes_.find(id); it != runtimes_.end()) return it->second.get();
  }
  // Its error names what there is instead.
  RETURN_IF_ERROR(registry_->Find(id).status());
  return absl::NotFoundError("the keyspace is being created: ask again");
}

std::vector<KeyspaceRuntime*> KeyspaceRuntimes::All() const {
  std::lock_guard lock(mutex_);
  std::vector<KeyspaceRuntime*> all;
  for (const auto& [id, runtime] : runtimes_) all.push_back(runtime.get());
  return all;
}

}  // namespace warmring
