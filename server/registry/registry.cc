#include "server/registry/registry.h"

#include <utility>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

// The ids of all keyspaces: one look each, however many versions they have.
absl::StatusOr<std::vector<KeyspaceId>> ReadIds(Store& store) {
  const std::string prefix = schema::KeyspacesPrefix();
  const std::string end = PrefixEnd(prefix);
  std::vector<KeyspaceId> ids;
  std::string begin = prefix;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<KeyValue> found, store.Scan(begin, end, 1));
    if (found.empty()) return ids;
    const std::string_view rest = std::string_view(found[0].key).substr(prefix.size());
    ids.emplace_back(rest.substr(0, rest.find('/')));
    begin = PrefixEnd(prefix + ids.back() + "/");
  }
}

}  // namespace

absl::Status Registry::Load(Store& store) {
  ASSIGN_OR_RETURN(const std::vector<KeyspaceId> ids, ReadIds(store));
  for (const KeyspaceId& id : ids) {
    absl::StatusOr<std::unique_ptr<Keyspace>> keyspace =
        Keyspace::Load(store, identity_.history, id);
    // Pages without a head: its creation was cut short before it was answered.
    if (absl::IsNotFound(keyspace.status())) continue;
    if (!keyspace.ok()) return keyspace.status();
    Add(*std::move(keyspace));
  }
  return absl::OkStatus();
}

absl::StatusOr<Keyspace*> Registry::Find(std::string_view id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = keyspaces_.find(id);
  if (found != keyspaces_.end()) return found->second.get();
  std::string known;
  int named = 0;
  for (const auto& [name, keyspace] : keyspaces_) {
    if (++named > 5) break;
    known += (known.empty() ? "" : ", ") + name;
  }
  return WithReason(
      absl::NotFoundError(fmt::format(
          "keyspace: '{}' does not exist: {}", Printable(id),
          known.empty() ? "create it first with `warmring keyspace create`"
                        : fmt::format("use one of {}{}", known, named > 5 ? ", ..." : ""))),
      "NOT_FOUND", {{"keyspace", Printable(id)}});
}

std::vector<Keyspace*> Registry::All() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Keyspace*> all;
  all.reserve(keyspaces_.size());
  for (const auto& [id, keyspace] : keyspaces_) all.push_back(keyspace.get());
  return all;
}

Keyspace* Registry::Add(std::unique_ptr<Keyspace> keyspace) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const KeyspaceId& id = keyspace->id();
  return keyspaces_.emplace(id, std::move(keyspace)).first->second.get();
}

}  // namespace warmring
