#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"
#include "server/store/schema/record.h"
#include "server/store/store.h"

namespace warmring {

// The newest durable state of a keyspace. Immutable.
struct Head {
  Membership::Ptr membership;
  Epoch next_epoch;
  std::string stored;  // the value of its key: guards the change that follows
};

// Who changes a keyspace, and why; for the history.
struct VersionNote {
  std::string author;
  std::string change;  // what, in a few words
  std::string reason;
  MigrationId migration;
};

// A change of the head, ready to be written and not yet valid.
struct HeadChange {
  std::shared_ptr<const Head> next;
  std::optional<Delta> delta;  // absent when only an epoch was reserved, or for the first version
  std::vector<Batch> before;   // pages, to be written first; nobody reads them without the batch
  Batch batch;                 // guards the present head
};

// The memberships of one keyspace in the store. head() is for any thread; the rest belongs to
// whoever writes (the keyspace's strand), except the reads that take a Store, which block and are
// for a thread that may.
class Keyspace {
 public:
  // The delta of one version is kept, sent and replayed in one piece.
  static constexpr size_t kMaxDeltaBytes = 512 * 1024;
  // Every so many versions one is kept in whole, so that no older one is far from it.
  static constexpr uint64_t kVersionsPerSnapshot = 64;

  // The batches that create a keyspace at version 1 with all ranges under epoch 1. `nodes` are
  // valid nodes with unique ids, not empty; the spec is valid. `ranges` says who owns what, as
  // indices into `nodes` in the order given; without any, the allocator decides.
  // Errors: InvalidArgument: more tokens than a membership may have; ranges that break an
  // invariant of Membership.
  static absl::StatusOr<HeadChange> Create(const HistoryId& history, const KeyspaceSpec& spec,
                                           std::vector<Node> nodes, const VersionNote& note,
                                           absl::Time now, std::vector<OwnedRange> ranges = {});

  // Reads the head of a keyspace. Blocks.
  // Errors: NotFound; DataLoss: what is stored does not give the digest that is stored with it.
  static absl::StatusOr<std::unique_ptr<Keyspace>> Load(Store& store, const HistoryId& history,
                                                        const KeyspaceId& id);

  explicit Keyspace(std::shared_ptr<const Head> head);

  const KeyspaceId& id() const { return id_; }
  std::shared_ptr<const Head> head() const;

  // The version after the head, or the head with an epoch taken, or both.
  // Errors: InvalidArgument: the update does not fit the head, or its delta is over kMaxDeltaBytes.
  absl::StatusOr<HeadChange> Prepare(const std::optional<Update>& update, bool reserve_epoch,
                                     const VersionNote& note, absl::Time now) const;

  // The batch of `change` is durable. REQUIRES: it was prepared from the present head.
  void Install(const HeadChange& change);

  // Errors: NotFound; DataLoss.
  absl::StatusOr<Membership::Ptr> MembershipAt(Store& store, Version version) const;

  struct VersionInfo {
    Version version;
    schema::VersionRecord record;
  };
  // From `newest` down, at most `limit`. REQUIRES: newest <= the head's. Errors: DataLoss.
  absl::StatusOr<std::vector<VersionInfo>> Versions(Store& store, Version newest,
                                                    size_t limit) const;
  // The last deltas up to the head, ascending, at most `limit`. Errors: DataLoss.
  absl::StatusOr<std::vector<Delta>> LatestDeltas(Store& store, size_t limit) const;

 private:
  const KeyspaceId id_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Head> head_;  // guarded by mutex_
};

}  // namespace warmring
