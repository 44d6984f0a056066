#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "core/base/ids.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "migrations/migration_machine.h"
#include "migrations/planner.h"
#include "migrations/task.h"

namespace warmring {

// One node's session as the server sees it, for people.
struct OwnerStatus {
  bool connected = false;
  Incarnation incarnation;
  Version applied_version;
  absl::Duration lease_left;  // of the server's belief; zero when it has expired
  uint64_t keys = 0;
  uint64_t bytes = 0;
  std::string data_address;  // as its owner knows it; empty: unknown
};

// What the conductor needs of one keyspace's sessions. Lives on the keyspace's strand, as the
// conductor does; every call comes from there.
class OwnerDirectory {
 public:
  virtual ~OwnerDirectory() = default;

  // Every node that has, or had, a session in this store.
  virtual std::map<NodeId, SessionFact> Facts() const = 0;
  // What sessions said about their engines, for previews.
  virtual std::map<NodeId, NodeFact> NodeFacts() const = 0;
  virtual std::map<NodeId, OwnerStatus> Describe() const = 0;
  // The complete present tasks; a node that is not named has none. Sent to the sessions that it
  // changes, again after each hello, and the floors of its fence tasks go with every grant.
  virtual void SetTasks(std::map<NodeId, std::vector<Task>> tasks) = 0;
};

// What the sessions tell the conductor, on the same strand.
class OwnerEvents {
 public:
  virtual ~OwnerEvents() = default;
  // A session opened, closed, was granted its first lease, or applied another version.
  virtual void OnSessionsChanged() = 0;
  virtual void OnReport(const TaskReport& report) = 0;
};

// Where committed versions go: the watch hub.
class Publisher {
 public:
  virtual ~Publisher() = default;
  // Once per version and in order. `delta` leads to it from the version before; absent for the
  // first version of a keyspace.
  virtual void Publish(const Membership::Ptr& membership, const std::optional<Delta>& delta) = 0;
};

}  // namespace warmring
