#include "tests/sim/checker.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/membership/encoding.h"
#include "core/membership/update.h"
#include "server/store/schema/key.h"
#include "server/store/schema/record.h"
#include "tests/sim/engine.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

Stage StageOf(const std::string& name) {
  static const std::map<std::string, Stage> kStages = {{"planned", Stage::kPlanned},
                                                       {"warming", Stage::kWarming},
                                                       {"verifying", Stage::kVerifying},
                                                       {"fencing", Stage::kFencing},
                                                       {"committed", Stage::kCommitted},
                                                       {"soaking", Stage::kSoaking},
                                                       {"undo-fencing", Stage::kUndoFencing},
                                                       {"succeeded", Stage::kSucceeded},
                                                       {"aborted", Stage::kAborted},
                                                       {"rolled-back", Stage::kRolledBack},
                                                       {"failed", Stage::kFailed}};
  return kStages.at(name);
}

const OwnerView* ViewOf(const Engine& engine) {
  if (!engine.alive() || !engine.state().has_map()) return nullptr;
  return &engine.state().view();
}

}  // namespace

void Checker::Violate(std::string what) {
  world_->Note([&] { return "VIOLATION " + what; });
  violations_.push_back(std::move(what));
}

void Checker::OnCreated(const Membership::Ptr& first) {
  truth_ = first;
  next_epoch_ = first->HighestEpoch().Next();
  for (const std::string& key : keys_) states_[key];
  NoteTruth(nullptr);
}

void Checker::OnTerm(Term term) {
  if (term <= term_) Violate(fmt::format("I5: term {} after {}", term.value, term_.value));
  term_ = term;
}

void Checker::NoteTruth(const Membership* before) {
  digests_[truth_->version()] = truth_->digest();
  for (const std::string& key : keys_) {
    KeyState& state = At(key);
    const OwnedRange now = truth_->RangeOf(truth_->PointOf(key));
    const NodeId& owner = truth_->nodes()[now.owner].id;
    const auto [known, fresh] = state.owners.emplace(now.epoch, owner);
    if (fresh) state.versions[now.epoch] = truth_->version();
    if (!fresh && known->second != owner) {
      Violate(fmt::format("I5: epoch {} of {} was {}'s and is {}'s", now.epoch.value, key,
                          known->second, owner));
    }
    if (before == nullptr) continue;
    const Epoch was = before->RangeOf(before->PointOf(key)).epoch;
    if (now.epoch < was) {
      Violate(
          fmt::format("I5: the epoch of {} goes from {} to {}", key, was.value, now.epoch.value));
    }
    if (now.epoch != was && burned_.contains(now.epoch)) {
      Violate(fmt::format("I5: epoch {} was burned, and {} has it", now.epoch.value, key));
    }
  }
}

void Checker::OnCommitted(const Batch& batch, Term term) {
  if (term < term_) {
    Violate(fmt::format("I5: the server of term {} writes in term {}", term.value, term_.value));
  }
  const KeyspaceId& id = world_->keyspace();
  const std::string deltas = fmt::format("ks/{}/delta/", id);
  const std::string migrations = schema::MigrationsPrefix(id);
  const std::string sessions = schema::SessionsPrefix(id);
  const Membership::Ptr before = truth_;
  for (const Batch::Change& change : batch.changes()) {
    if (!change.value) continue;
    if (change.key.starts_with(deltas)) OnVersion(*change.value);
    if (change.key == schema::HeadKey(id)) OnHead(*change.value);
    if (change.key.starts_with(sessions)) {
      OnSession(change.key.substr(sessions.size()), *change.value);
    }
  }
  for (const Batch::Change& change : batch.changes()) {
    if (change.value && change.key.starts_with(migrations)) {
      OnMigration(change.key.substr(migrations.size()), *change.value, before.get());
    }
  }
  if (before == truth_) return;
  NoteTruth(before.get());
  for (const auto& engine : world_->engines()) CheckWedge(*engine);
}

void Checker::OnSession(const NodeId& node, const std::string& text) {
  const absl::StatusOr<schema::SessionRecord> session = schema::DecodeSession(text);
  if (!session.ok()) return Violate("a session that cannot be read");
  Incarnation& known = incarnations_[node];
  if (known != session->incarnation) renewed_at_[node] = ++renewals_;
  known = session->incarnation;
}

void Checker::OnVersion(const std::string& text) {
  const absl::StatusOr<schema::VersionEntry> entry = schema::DecodeVersion(text);
  if (!entry.ok()) return Violate("a version that cannot be read");
  const absl::StatusOr<Delta> delta = DecodeDelta(entry->delta);
  if (!delta.ok()) return Violate("a delta that cannot be read");
  const absl::StatusOr<Membership::Ptr> next = ApplyDelta(*truth_, *delta);
  if (!next.ok()) {
    return Violate(fmt::format("I5: version {} after {}: {}", delta->to.value,
                               truth_->version().value, std::string(next.status().message())));
  }
  truth_ = *next;
  world_->Mix(truth_->digest());
}

void Checker::OnHead(const std::string& text) {
  const absl::StatusOr<schema::HeadRecord> head = schema::DecodeHead(text);
  if (!head.ok()) return Violate("a head that cannot be read");
  if (head->version != truth_->version() || head->digest != truth_->digest()) {
    Violate(fmt::format("I5: the head is version {}, the last delta leads to {}",
                        head->version.value, truth_->version().value));
  }
  if (head->next_epoch < next_epoch_) {
    Violate(fmt::format("I5: the next epoch goes from {} to {}", next_epoch_.value,
                        head->next_epoch.value));
  }
  if (truth_->HighestEpoch() >= head->next_epoch) {
    Violate(fmt::format("I5: epoch {} is used and was not reserved", truth_->HighestEpoch().value));
  }
  next_epoch_ = head->next_epoch;
}

void Checker::OnMigration(const MigrationId& id, const std::string& text,
                          const Membership* before) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return Violate("a migration that cannot be read");
  Migration& migration = migrations_[id];
  const Stage was = migration.stage;
  const Epoch epoch_before = migration.wave_epoch;
  if (IsTerminal(was)) Violate(fmt::format("I8: migration {} had ended", id));
  const auto revision = json.at("revision").get<uint64_t>();
  if (revision != 0 && revision != migration.revision + 1) {
    Violate(fmt::format("I5: revision {} of {} after {}", revision, id, migration.revision));
  }
  migration.revision = revision;
  migration.stage = StageOf(json.at("stage").get<std::string>());
  migration.wave = json.at("wave").get<uint32_t>();
  migration.wave_epoch = Epoch(json.at("wave_epoch").get<uint64_t>());
  migration.awaiting_promotion = json.at("awaiting_promotion").get<bool>();
  migration.paused = json.at("paused").get<bool>();
  world_->Mix(static_cast<uint64_t>(migration.stage) * 31 + revision);
  world_->Note([&] {
    return fmt::format("store: {} revision {} {} wave {} epoch {} version {}", id, revision,
                       StageName(migration.stage), migration.wave, migration.wave_epoch.value,
                       truth_->version().value);
  });
  if (migration.stage == Stage::kFencing && json.at("waves_committed").get<uint32_t>() == 0) {
    migration.renewals_before = renewals_;
  }
  const bool asked =
      json.at("undo_requested").get<bool>() || json.at("abort_requested").get<bool>();
  if (asked && !migration.undo_asked) migration.undo_asked = world_->scheduler().now();
  if (migration.stage == Stage::kUndoFencing && migration.stage != was) {
    migration.ignorant.clear();
    const bool waited = world_->scheduler().now() - *migration.undo_asked >= 45 * kMilli;
    for (const auto& engine : world_->engines()) {
      const OwnerView* const view = ViewOf(*engine);
      const bool behind = view != nullptr && view->membership()->version() < truth_->version();
      if (waited && behind) migration.ignorant.insert(engine->node());
    }
  }
  if (migration.stage != was && IsTerminal(migration.stage)) ++ended_[migration.stage];
  const bool fenced = was == Stage::kFencing || was == Stage::kUndoFencing;
  if (fenced && migration.stage != was) {
    // Whose ranges may be lost, and nobody else's.
    std::set<NodeId> lost;
    bool unclean = false;
    for (const auto& evidence : json.at("evidence")) {
      const bool passed_over = evidence.at("kind").get<int>() != 1;  // no acknowledgement
      unclean = unclean || passed_over;
      const NodeId donor = evidence.at("donor").get<NodeId>();
      // Who lost its memory since it may have become an owner does not know what it has changed;
      // nor does who does not know yet that it is one, for which an undo waits for a fence timeout,
      // of which the shortest has 50 ms. Everybody else does.
      const bool forgot = renewed_at_[donor] > migration.renewals_before;
      const bool ignorant = migration.ignorant.contains(donor);
      const bool unknown = !evidence.at("dirty_complete").get<bool>() && (forgot || ignorant);
      if (passed_over || (was == Stage::kUndoFencing && unknown)) lost.insert(donor);
    }
    // The one donor of a failover is taken for dead, and may acknowledge all the same. Other first
    // waves are unclean by their evidence.
    const bool failover = was == Stage::kFencing && json.at("unclean").get<bool>() && !unclean &&
                          json.at("waves_committed").get<uint32_t>() == 1;
    const bool handed_over = migration.stage == Stage::kRolledBack ||
                             (was == Stage::kFencing && migration.stage == Stage::kCommitted &&
                              migration.wave_epoch == epoch_before);
    if (!handed_over) burned_.insert(epoch_before);
    if (handed_over && unclean) ++unclean_;
    for (const std::string& key : keys_) {
      if (!handed_over) break;
      const OwnedRange then = before->RangeOf(before->PointOf(key));
      const OwnedRange now = truth_->RangeOf(truth_->PointOf(key));
      const bool is_lost = failover || lost.contains(before->nodes()[then.owner].id);
      if (then.epoch != now.epoch && is_lost) {
        At(key).may_be_lost = true;
      }
    }
  }
  world_->OnStage(id, was, migration);
}

std::vector<MigrationId> Checker::Active() const {
  std::vector<MigrationId> active;
  for (const auto& [id, migration] : migrations_) {
    if (!IsTerminal(migration.stage)) active.push_back(id);
  }
  return active;
}

uint64_t Checker::ended(Stage stage) const {
  const auto found = ended_.find(stage);
  return found == ended_.end() ? 0 : found->second;
}

bool Checker::IsBeingFenced() const {
  return std::any_of(migrations_.begin(), migrations_.end(), [](const auto& item) {
    return item.second.stage == Stage::kFencing || item.second.stage == Stage::kUndoFencing;
  });
}

void Checker::OnInstalled(const Engine& engine) {
  const Membership& map = *engine.state().view().membership();
  const auto digest = digests_.find(map.version());
  if (digest == digests_.end() || digest->second != map.digest()) {
    Violate(fmt::format("I4: {} installs version {}, which is not committed", engine.node(),
                        map.version().value));
  }
  NoteActivated(engine);
  CheckAlone(engine);
  CheckWedge(engine);
  CheckValues(engine);
}

// An epoch is active from when somebody could accept a write under it.
void Checker::NoteActivated(const Engine& engine) {
  if (ViewOf(engine) == nullptr) return;
  for (const std::string& key : keys_) {
    const KeyPoint point = engine.state().PointOf(key);
    if (!engine.Accepts(point)) continue;
    KeyState& state = At(key);
    state.activated =
        std::max(state.activated, engine.state().view().membership()->RangeOf(point).epoch);
  }
}

void Checker::OnGranted(const Engine& engine) {
  NoteActivated(engine);
  CheckAlone(engine);
  CheckWedge(engine);
}

void Checker::OnFenced(const Engine& engine) { CheckWedge(engine); }

void Checker::CheckAlone(const Engine& engine) {
  if (ViewOf(engine) == nullptr) return;
  for (const std::string& key : keys_) {
    if (!engine.Accepts(engine.state().PointOf(key))) continue;
    for (const auto& other : world_->engines()) {
      if (other.get() == &engine || ViewOf(*other) == nullptr) continue;
      if (!other->Accepts(other->state().PointOf(key))) continue;
      return Violate(fmt::format("I1: {} (version {}) and {} (version {}) both accept writes of {}",
                                 engine.node(), engine.state().view().membership()->version().value,
                                 other->node(), other->state().view().membership()->version().value,
                                 key));
    }
  }
}

void Checker::CheckWedge(const Engine& engine) {
  const OwnerView* view = ViewOf(engine);
  if (view == nullptr || IsBeingFenced()) return;
  for (const std::string& key : keys_) {
    const KeyPoint point = truth_->PointOf(key);
    const OwnedRange range = truth_->RangeOf(point);
    if (truth_->nodes()[range.owner].id != engine.node()) continue;
    if (view->FloorOf(point) >= range.epoch) {
      return Violate(fmt::format("I6: {} owns {} under epoch {}, and its floor is {}",
                                 engine.node(), key, range.epoch.value,
                                 view->FloorOf(point).value));
    }
  }
}

void Checker::OnAcknowledged(const Engine& engine, const std::string& key, Epoch epoch,
                             uint64_t value) {
  ++acknowledged_;
  KeyState& state = At(key);
  const auto owner = state.owners.find(epoch);
  if (owner == state.owners.end()) {
    Violate(fmt::format("I3: {} acknowledges {} under epoch {}, which was never committed",
                        engine.node(), key, epoch.value));
  } else if (owner->second != engine.node()) {
    Violate(fmt::format("I3: {} acknowledges {} under epoch {}, which is {}'s", engine.node(), key,
                        epoch.value, owner->second));
  }
  if (epoch < state.activated) {
    Violate(fmt::format("I2: {} acknowledges {} under epoch {} after {} was activated",
                        engine.node(), key, epoch.value, state.activated.value));
  }
  state.latest = value;
  // A copy that nobody will ever copy from.
  state.may_be_lost = engine.replaced();
  world_->Mix(value * 7 + epoch.value);
}

void Checker::OnAnswered(const Engine& engine, const std::string& key, Epoch epoch,
                         const Admission& admission) {
  const OwnedRange range = truth_->RangeOf(truth_->PointOf(key));
  if (epoch != range.epoch || truth_->nodes()[range.owner].id != engine.node()) return;
  const OwnerView* view = ViewOf(engine);
  if (view == nullptr || view->membership()->version() < At(key).versions.at(epoch)) return;
  const bool for_epoch =
      admission.verdict == Verdict::kStaleEpoch || admission.verdict == Verdict::kNotOwner ||
      admission.verdict == Verdict::kOwnerBehind || admission.verdict == Verdict::kWrongHistory;
  const bool fenced = admission.verdict == Verdict::kFencing && !IsBeingFenced();
  if (for_epoch || fenced) {
    Violate(fmt::format("U: {} refuses {} under its present epoch {} (verdict {})", engine.node(),
                        key, epoch.value, static_cast<int>(admission.verdict)));
  }
}

void Checker::OnRead(const Engine& engine, const std::string& key, Epoch epoch,
                     const std::optional<uint64_t>& value) {
  if (engine.two_steps() || engine.replaced()) return;
  KeyState& state = At(key);
  const OwnedRange range = truth_->RangeOf(truth_->PointOf(key));
  if (epoch != range.epoch) return;
  if (value && *value != state.latest) {
    Violate(fmt::format("V: {} serves {} of {}, and {} was acknowledged", engine.node(), *value,
                        key, state.latest));
  }
  if (!value && state.latest != 0 && !state.may_be_lost) {
    Violate(fmt::format("V: {} has lost {}, of which {} was acknowledged", engine.node(), key,
                        state.latest));
  }
}

void Checker::CheckValues(const Engine& engine) {
  const OwnerView* view = ViewOf(engine);
  if (view == nullptr || engine.state().purge_due()) return;
  for (const std::string& key : keys_) {
    const KeyPoint point = view->membership()->PointOf(key);
    if (!view->Owns(point)) continue;
    const Epoch epoch = view->membership()->RangeOf(point).epoch;
    const auto value = engine.values().find(key);
    OnRead(engine, key, epoch,
           value == engine.values().end() ? std::nullopt : std::optional(value->second));
  }
}

void Checker::OnEngineLost(const Engine& engine) {
  for (const std::string& key : keys_) {
    const OwnedRange range = truth_->RangeOf(truth_->PointOf(key));
    const OwnerView* view = ViewOf(engine);
    const bool held = view != nullptr && view->Owns(engine.state().PointOf(key));
    // What it was given, or has kept, for a hand-over that may be committed on its word.
    const int at = truth_->MoveOf(truth_->PointOf(key));
    const Move* move = at < 0 ? nullptr : &truth_->moves()[static_cast<size_t>(at)];
    const bool part = move != nullptr && (move->from == engine.node() || move->to == engine.node());
    if (held || part || truth_->nodes()[range.owner].id == engine.node())
      At(key).may_be_lost = true;
  }
}

void Checker::OnWatched(Version last, const Membership& membership) {
  // A snapshot may be of the version that is there.
  if (membership.version() < last) {
    Violate(fmt::format("I9: a watcher has version {} after {}", membership.version().value,
                        last.value));
  }
  const auto digest = digests_.find(membership.version());
  if (digest == digests_.end() || digest->second != membership.digest()) {
    Violate(fmt::format("I4: a watcher has version {}, which is not committed",
                        membership.version().value));
  }
}

std::vector<std::string> Checker::NotWritable() const {
  std::vector<std::string> names;
  for (const std::string& key : keys_) {
    const KeyPoint point = truth_->PointOf(key);
    const bool writable =
        std::any_of(world_->engines().begin(), world_->engines().end(), [&](const auto& engine) {
          return ViewOf(*engine) != nullptr && engine->Accepts(point) &&
                 engine->state().view().membership()->version() == truth_->version();
        });
    if (!writable) names.push_back(key);
  }
  return names;
}

}  // namespace warmring::sim
