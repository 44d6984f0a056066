#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/registry/keyspace.h"
#include "server/registry/store_identity.h"
#include "server/store/store.h"

namespace warmring {

// All keyspaces of the store by id. Any thread. Keyspaces are never removed, so a pointer stays
// good for as long as the registry.
class Registry {
 public:
  explicit Registry(StoreIdentity identity) : identity_(std::move(identity)) {}

  // Reads every keyspace of the store. Blocks. Errors: those of Keyspace::Load.
  absl::Status Load(Store& store);

  const StoreIdentity& identity() const { return identity_; }

  // Error: NotFound naming the id and what there is instead.
  absl::StatusOr<Keyspace*> Find(std::string_view id) const;
  // In order of their ids.
  std::vector<Keyspace*> All() const;
  // REQUIRES: its id is new.
  Keyspace* Add(std::unique_ptr<Keyspace> keyspace);

 private:
  const StoreIdentity identity_;
  mutable std::mutex mutex_;
  std::map<KeyspaceId, std::unique_ptr<Keyspace>, std::less<>> keyspaces_;  // guarded by mutex_
};

}  // namespace warmring
