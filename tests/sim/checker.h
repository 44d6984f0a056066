#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/membership/membership.h"
#include "core/ownership/owner_view.h"
#include "migrations/stage.h"
#include "server/store/store.h"
#include "tests/sim/process.h"

namespace warmring::sim {

class Engine;
class World;

// Knows everything and sees that the promises of docs/protocol.md are kept, at each moment at which
// one of them could be broken:
//
//   I1  at most one owner can accept a write of a key at any instant
//   I2  nothing is acknowledged under an epoch once a higher one was activated
//   I3  who acknowledges under an epoch is whom the store names for it
//   I4  only what is committed is activated
//   I5  versions, epochs and terms only grow; epochs that were burned are in no membership; who was
//       deposed writes nothing
//   I6  where nothing is being fenced, the present owner is not fenced out of its epoch
//   I8  a migration has one outcome
//   I9  a watcher sees versions in order, and each as it was committed
//   V   a value that was acknowledged is served, or none where the loss is known of; never an older
//       one
//   U   a range that did not change refuses nobody for an epoch
class Checker {
 public:
  Checker(World* world, std::vector<std::string> keys) : world_(world), keys_(std::move(keys)) {}

  // The keyspace was created.
  void OnCreated(const Membership::Ptr& first);
  void OnTerm(Term term);
  // `batch` is in the store, written by the server of `term`.
  void OnCommitted(const Batch& batch, Term term);

  void OnInstalled(const Engine& engine);
  void OnGranted(const Engine& engine);
  void OnFenced(const Engine& engine);
  void OnAcknowledged(const Engine& engine, const std::string& key, Epoch epoch, uint64_t value);
  // A client was answered at this instant.
  void OnAnswered(const Engine& engine, const std::string& key, Epoch epoch,
                  const Admission& admission);
  void OnRead(const Engine& engine, const std::string& key, Epoch epoch,
              const std::optional<uint64_t>& value);
  // What an engine had in memory is gone.
  void OnEngineLost(const Engine& engine);
  void OnWatched(Version last, const Membership& membership);

  // What the store has.
  const Membership::Ptr& truth() const { return truth_; }
  struct Migration {
    Stage stage = Stage::kPlanned;
    uint32_t wave = 0;
    Epoch wave_epoch;
    bool awaiting_promotion = false;
    bool paused = false;
    uint64_t revision = 0;
    uint64_t renewals_before = 0;  // incarnations that came before its first wave was fenced
    std::optional<Nanos> undo_asked;
    std::set<NodeId> ignorant;  // present owners that did not know it when an undo had waited
  };
  const std::map<MigrationId, Migration>& migrations() const { return migrations_; }
  std::vector<MigrationId> Active() const;
  uint64_t ended(Stage stage) const;
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t unclean() const { return unclean_; }

  // Names what nobody accepts writes of now; for the end, when all should be well.
  std::vector<std::string> NotWritable() const;
  void CheckValues(const Engine& engine);

  const std::vector<std::string>& violations() const { return violations_; }
  void Violate(std::string what);

 private:
  struct KeyState {
    std::map<Epoch, NodeId> owners;     // by committed epoch
    std::map<Epoch, Version> versions;  // that gave the epoch
    Epoch activated;                    // the highest
    uint64_t latest = 0;                // acknowledged; 0: nothing yet
    bool may_be_lost = false;
  };

  void NoteTruth(const Membership* before);
  void OnVersion(const std::string& text);
  void OnHead(const std::string& text);
  void OnSession(const NodeId& node, const std::string& text);
  void OnMigration(const MigrationId& id, const std::string& text, const Membership* before);
  void NoteActivated(const Engine& engine);
  void CheckAlone(const Engine& engine);
  void CheckWedge(const Engine& engine);
  bool IsBeingFenced() const;
  KeyState& At(const std::string& key) { return states_.at(key); }

  World* const world_;
  const std::vector<std::string> keys_;
  Membership::Ptr truth_;
  std::map<Version, uint64_t> digests_;
  std::map<std::string, KeyState> states_;
  std::map<MigrationId, Migration> migrations_;
  std::map<Stage, uint64_t> ended_;
  std::set<Epoch> burned_;
  Epoch next_epoch_;
  Term term_;
  // Incarnations that the server has answered to: how many so far, the newest of each node, and its
  // number.
  uint64_t renewals_ = 0;
  std::map<NodeId, Incarnation> incarnations_;
  std::map<NodeId, uint64_t> renewed_at_;
  uint64_t acknowledged_ = 0;
  uint64_t unclean_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace warmring::sim
