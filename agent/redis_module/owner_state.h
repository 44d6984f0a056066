#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "core/base/instant.h"
#include "core/membership/keyspace_spec.h"
#include "core/ownership/change_log.h"
#include "core/ownership/dirty_set.h"
#include "core/ownership/fill_tokens.h"
#include "core/ownership/forgotten_log.h"
#include "core/ownership/owner_view.h"

namespace warmring {

// Bounds on memory, from the arguments of the module.
struct OwnerLimits {
  size_t changes_max_bytes = 64 << 20;  // of the change log, and again of the forwarded deletes
  size_t dirty_max_keys = 1'000'000;    // of each migration's dirty set
};

// Whom the server serves: void until an agent attaches.
struct OwnerBinding {
  HistoryId history;
  KeyspaceId keyspace;
  NodeId node;
  friend bool operator==(const OwnerBinding&, const OwnerBinding&) = default;
};

// Why a key changes just now. It decides what a change means beside its entry in the change log.
enum class Cause : uint8_t {
  kUnknown,        // nobody told us: a write past the filter, unless it is an expiry or an eviction
  kAdmitted,       // a write or fill that was admitted
  kRefusedDelete,  // a delete that is applied and refused
  kForget,
  kTransfer,  // entries of a transfer, and purges
};

struct OwnerCounters {
  uint64_t refused_stale = 0;
  uint64_t refused_moved = 0;
  uint64_t refused_nolease = 0;
  uint64_t refused_fencing = 0;
  uint64_t refused_behind = 0;
  uint64_t refused_history = 0;
  uint64_t fills_stored = 0;
  uint64_t fills_void = 0;
  uint64_t forgets = 0;
  uint64_t faults = 0;  // changes in ranges that are not ours, which nobody admitted
};

// Everything that the owner inside one Redis server knows: view, logs, tokens, transfers. Volatile
// and closed at its beginning. Knows neither Redis nor a clock. Not thread-safe: Redis has one
// thread for commands.
class OwnerState {
 public:
  // `generation`: where to begin to count; random, so that an agent of another life never fits.
  OwnerState(const Incarnation& incarnation, uint64_t generation, const OwnerLimits& limits);

  struct Attachment {
    uint64_t generation = 0;
    bool purge_due = false;
  };
  // Binds, or binds again. Another binding than the present one starts over as `fresh`.
  // `keys` is the size of the dataset now.
  Attachment Attach(const OwnerBinding& binding, OnRestart on_restart, uint64_t keys,
                    const Incarnation& fresh);
  // Forgets everything and is unbound, as after a restart of the process.
  void StartOver(const Incarnation& fresh);

  const Incarnation& incarnation() const { return incarnation_; }
  uint64_t generation() const { return generation_; }
  bool bound() const { return view_.has_value(); }
  bool has_map() const { return bound() && view_->membership() != nullptr; }
  bool purge_due() const { return purge_due_; }
  void PurgeDone() { purge_due_ = false; }

  // REQUIRES of all below, unless they say otherwise: bound().
  OwnerView& view() { return *view_; }
  const OwnerView& view() const { return *view_; }
  ChangeLog& changes() { return *changes_; }
  const FillTokens& tokens() const { return *tokens_; }
  ForgottenLog& forgotten() { return *forgotten_; }
  OwnerCounters& counters() { return counters_; }  // also unbound

  // Installs a membership: begins dirty sets of what is activated, closes transfers into what was
  // activated or left, decides about deletes that wait.
  // Errors: those of OwnerView::Install.
  absl::Status Install(Membership::Ptr membership, Instant now);

  // REQUIRES: has_map().
  KeyPoint PointOf(std::string_view key) const;

  // A change of `key`. An action brackets the changes that one command makes, so that a key that is
  // both reported by the server and named by the command counts once.
  class Action {
   public:
    Action(OwnerState& state, Cause cause);
    ~Action();
    Action(const Action&) = delete;
    Action& operator=(const Action&) = delete;
    // Notes a key that the command names, whether or not the server reported it: a delete of an
    // absent key is reported by nobody, and still voids fills and belongs into the log.
    void Touch(std::string_view key);

   private:
    OwnerState& state_;
  };
  // Reported by the server: `key` changed, or vanished by its time or for memory.
  void NoteChange(std::string_view key);
  void NoteVanished(std::string_view key);
  // Everything may have changed.
  void NoteLoss(std::string_view reason);

  // Whether a miss of `key` may be read from the previous owner.
  bool MayPeek(std::string_view key, KeyPoint point, Instant now) const;

  // Null when there is no dirty set of that migration.
  const DirtySet* DirtyOf(const MigrationId& migration) const;
  size_t dirty_keys() const;

  // A transfer into this node, under a nonce.
  struct Transfer {
    MigrationId migration;
    HashRangeSet ranges;  // as opened
    HashRangeSet open;    // what may still be written: neither activated nor left
  };
  // Errors: FailedPrecondition: the map does not make this node a recipient of `ranges` in that
  // migration, or the nonce is used otherwise. REQUIRES: has_map().
  absl::Status Open(const Id128& nonce, const MigrationId& migration, const HashRangeSet& ranges);
  bool Close(const Id128& nonce) { return transfers_.erase(nonce) > 0; }
  // Null when it was never opened, or was closed by its agent or by a map.
  const Transfer* FindTransfer(const Id128& nonce) const;

  // Remembers what a donor's transfer tracks, to drop it when its migration is over.
  absl::StatusOr<uint64_t> Track(const Id128& nonce, const HashRangeSet& ranges);
  void Untrack(const Id128& nonce);
  // Null when the transfer is not tracked.
  const HashRangeSet* TrackedRanges(const Id128& nonce) const;

 private:
  // (migration, wave, from): a part of a migration that is activated at once.
  using Activation = std::tuple<MigrationId, uint32_t, NodeId>;
  struct Donation {
    HashRangeSet ranges;
    bool seen_in_map = false;
  };

  void NoteActivations(const Membership* before, Instant now);
  void NarrowTransfers();
  void DropDonations();
  void Record(std::string_view key, KeyPoint point, bool written);
  bool IsMoving(const HashRangeSet& ranges) const;
  HashRangeSet ReceivedRanges(const MigrationId& migration) const;

  const OwnerLimits limits_;
  Incarnation incarnation_;
  uint64_t generation_;
  std::optional<OwnerBinding> binding_;
  bool purge_due_ = false;
  std::optional<OwnerView> view_;
  std::unique_ptr<ChangeLog> changes_;
  std::unique_ptr<FillTokens> tokens_;
  std::unique_ptr<ForgottenLog> forgotten_;
  std::map<MigrationId, DirtySet> dirty_;
  std::map<Activation, Instant> activated_;
  std::map<Id128, Transfer> transfers_;
  std::map<Id128, Donation> donations_;
  OwnerCounters counters_;
  Cause cause_ = Cause::kUnknown;
  std::vector<std::string> touched_;  // in the present action
};

}  // namespace warmring
