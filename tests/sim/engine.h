#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/redis_module/owner_state.h"
#include "core/ownership/owner_view.h"
#include "tests/sim/process.h"

namespace warmring::sim {

class World;

// A place in an engine's change log, as in agent/engine/cache_engine.h.
struct LogPlace {
  std::string log_id;
  uint64_t position = 0;
};

struct Item {
  std::string key;
  std::optional<uint64_t> value;  // nothing: the key is absent
};

// What holds the keys of a node: the Redis module's OwnerState with a map for a dataset, and the
// commands of docs/protocol.md 2 as they are in agent/redis_module, each at one instant.
//
// With two steps a write is admitted at one instant and acknowledged at a later one, as a service
// with OwnerGuard does; such an engine answers a fence only when it is drained.
class Engine final : public Process {
 public:
  Engine(World* world, NodeId node, Site site, int64_t rate_ppm, Nanos clock_start,
         const Incarnation& incarnation, uint64_t generation, bool two_steps);

  // Commands of the agent. All but Attach are refused (Aborted) for another generation.
  struct Attachment {
    Incarnation incarnation;
    uint64_t generation = 0;
    bool purge_due = false;
  };
  Attachment Attach(const HistoryId& history, const Incarnation& fresh);
  absl::Status InstallMap(uint64_t generation, const Membership::Ptr& membership);
  absl::StatusOr<uint64_t> Renew(uint64_t generation);
  absl::Status Grant(uint64_t generation, const LeaseGrant& grant);
  struct Fenced {
    LogPlace watermark;
    bool dirty_complete = false;
  };
  // Unavailable while writes are in flight: the floor is raised all the same.
  absl::StatusOr<Fenced> Fence(uint64_t generation, const MigrationId& migration, Epoch floor,
                               const HashRangeSet& ranges);
  absl::StatusOr<LogPlace> Track(uint64_t generation, const Id128& nonce,
                                 const HashRangeSet& ranges);
  absl::Status Untrack(uint64_t generation, const Id128& nonce);
  struct Changes {
    uint64_t next = 0;
    std::vector<std::string> keys;
  };
  // DataLoss: the log does not reach back.
  absl::StatusOr<Changes> ReadChanges(uint64_t generation, const Id128& nonce,
                                      const LogPlace& cursor, uint64_t ack);
  struct Page {
    std::string next;  // empty: done
    std::vector<std::string> keys;
  };
  absl::StatusOr<Page> Scan(uint64_t generation, const Id128& nonce, const std::string& cursor);
  absl::StatusOr<std::vector<Item>> Dump(uint64_t generation, const std::vector<std::string>& keys);
  struct Dirty {
    bool complete = false;
    std::vector<std::string> keys;
  };
  absl::StatusOr<Dirty> ReadDirty(uint64_t generation, const MigrationId& migration);
  absl::Status Open(uint64_t generation, const Id128& nonce, const MigrationId& migration,
                    const HashRangeSet& ranges);
  // Cancelled: the transfer is closed.
  absl::Status Apply(uint64_t generation, const Id128& nonce, const std::vector<Item>& items);
  absl::Status CloseTransfer(uint64_t generation, const Id128& nonce);
  absl::StatusOr<std::string> PurgeTransfer(uint64_t generation, const Id128& nonce,
                                            const std::string& cursor);
  absl::Status PurgeLeft(uint64_t generation);
  absl::Status PurgeAll(uint64_t generation);

  // Commands of clients.
  Admission Write(const std::string& key, Epoch epoch, uint64_t value);
  Admission Read(const std::string& key, Epoch epoch, std::optional<uint64_t>* value);

  // Whether it accepts a write of the point now, from whom knows its epoch.
  bool Accepts(KeyPoint point) const {
    return state_.bound() && state_.view().AdmitPlain(point, Boot()).ok();
  }
  const NodeId& node() const { return node_; }
  const OwnerState& state() const { return state_; }
  const std::map<std::string, uint64_t>& values() const { return values_; }
  void Load(std::map<std::string, uint64_t> values) { values_ = std::move(values); }
  bool two_steps() const { return two_steps_; }
  // Another engine has taken its place in the eyes of the agent.
  bool replaced() const { return replaced_; }
  void SetReplaced() { replaced_ = true; }

 private:
  struct InFlight {
    std::string key;
    Epoch epoch;
    uint64_t value = 0;
    bool lost = false;
  };

  absl::Status Check(uint64_t generation) const;
  Admission Admit(const std::string& key, Epoch epoch) const;
  void Acknowledge(const std::string& key, Epoch epoch, uint64_t value);
  void Finish(uint64_t id);
  void NoteLost();
  bool IsDrained(Epoch floor, const HashRangeSet& ranges) const;

  World* const world_;
  const NodeId node_;
  const bool two_steps_;
  OwnerState state_;
  std::map<std::string, uint64_t> values_;
  std::map<uint64_t, InFlight> in_flight_;
  uint64_t next_write_ = 1;
  bool replaced_ = false;
};

}  // namespace warmring::sim
