#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/conductor/conductor.h"
#include "server/executor/clock.h"
#include "server/executor/thread_pool.h"
#include "server/registry/registry.h"
#include "server/sessions/sessions.h"
#include "server/store/committer.h"

namespace warmring {

// What lives on one keyspace's strand: its sessions and its conductor. The two members may be used
// on `strand()` only.
class KeyspaceRuntime final : private OwnerDirectory {
 public:
  struct Environment {
    StoreIdentity identity;
    Committer* committer = nullptr;
    ThreadPool* pool = nullptr;
    const Clock* clock = nullptr;
    Publisher* publisher = nullptr;
    absl::Duration lease;
    std::function<Id128()> random;  // any thread
  };
  // REQUIRES: everything the environment names, and the keyspace, outlive the runtime.
  KeyspaceRuntime(Keyspace* keyspace, const Environment& environment);

  // Sessions and migrations that the store holds. Blocks; before anything is posted to the strand.
  // Errors: those of the store; DataLoss.
  absl::Status Load(Store& store);

  Keyspace& keyspace() { return *keyspace_; }
  Executor& strand() { return *strand_; }
  Sessions& sessions() { return sessions_; }
  Conductor& conductor() { return conductor_; }
  std::map<NodeId, OwnerStatus> Describe() const override;

 private:
  std::map<NodeId, SessionFact> Facts() const override { return sessions_.Facts(); }
  std::map<NodeId, NodeFact> NodeFacts() const override;
  void SetTasks(std::map<NodeId, std::vector<Task>> tasks) override;

  Keyspace* const keyspace_;
  const Clock* const clock_;
  std::unique_ptr<Executor> strand_;
  Sessions sessions_;
  Conductor conductor_;
};

// All of them by id. Any thread; pointers stay good for as long as the directory.
class KeyspaceRuntimes {
 public:
  KeyspaceRuntimes(Registry* registry, KeyspaceRuntime::Environment environment)
      : registry_(registry), environment_(std::move(environment)) {}

  // For every keyspace of the registry; what is published already is not published again. Blocks.
  // Errors: those of KeyspaceRuntime::Load.
  absl::Status LoadAll(Store& store);
  // For a keyspace that has just been created; publishes its first version.
  KeyspaceRuntime* Add(Keyspace* keyspace);

  // Error: NotFound as Registry::Find.
  absl::StatusOr<KeyspaceRuntime*> Find(std::string_view id) const;
  // In order of their ids.
  std::vector<KeyspaceRuntime*> All() const;

 private:
  KeyspaceRuntime* Make(Keyspace* keyspace);

  Registry* const registry_;
  const KeyspaceRuntime::Environment environment_;
  mutable std::mutex mutex_;
  std::map<KeyspaceId, std::unique_ptr<KeyspaceRuntime>, std::less<>> runtimes_;  // by mutex_
};

}  // namespace warmring
