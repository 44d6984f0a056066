#include "tests/sim/engine.h"

#include <utility>

#include <fmt/format.h>

#include "core/base/mutant.h"
#include "core/base/status_macros.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

constexpr size_t kPage = 10;

}  // namespace

Engine::Engine(World* world, NodeId node, Site site, int64_t rate_ppm, Nanos clock_start,
               const Incarnation& incarnation, uint64_t generation, bool two_steps)
    : Process(&world->scheduler(), site, rate_ppm, clock_start),
      world_(world),
      node_(std::move(node)),
      two_steps_(two_steps),
      state_(incarnation, generation, OwnerLimits()) {}

absl::Status Engine::Check(uint64_t generation) const {
  if (!state_.bound() || generation != state_.generation()) {
    return absl::AbortedError("generation");
  }
  return absl::OkStatus();
}

Engine::Attachment Engine::Attach(const HistoryId& history, const Incarnation& fresh) {
  const OwnerState::Attachment attached =
      state_.Attach({history, world_->keyspace(), node_}, OnRestart::kPurge, values_.size(), fresh);
  return {state_.incarnation(), attached.generation, attached.purge_due};
}

absl::Status Engine::InstallMap(uint64_t generation, const Membership::Ptr& membership) {
  RETURN_IF_ERROR(Check(generation));
  RETURN_IF_ERROR(state_.Install(membership, Boot()));
  NoteLost();
  world_->checker().OnInstalled(*this);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Engine::Renew(uint64_t generation) {
  RETURN_IF_ERROR(Check(generation));
  return state_.view().Renew(Boot());
}

absl::Status Engine::Grant(uint64_t generation, const LeaseGrant& grant) {
  RETURN_IF_ERROR(Check(generation));
  absl::Status granted = absl::FailedPreconditionError("a purge is due");
  // The owner reads its clock as it takes the message.
  state_.view().HasLease(Boot());
  if (state_.purge_due()) {
    for (const Floor& floor : grant.floors) state_.view().Fence(floor.ranges, floor.epoch);
  } else {
    granted = state_.view().Grant(grant);
  }
  NoteLost();
  world_->checker().OnGranted(*this);
  return granted;
}

absl::StatusOr<Engine::Fenced> Engine::Fence(uint64_t generation, const MigrationId& migration,
                                             Epoch floor, const HashRangeSet& ranges) {
  RETURN_IF_ERROR(Check(generation));
  RETURN_IF_ERROR(state_.view().CheckPlanes(ranges));
  state_.view().Fence(ranges, floor);
  NoteLost();
  world_->checker().OnFenced(*this);
  if (!IsDrained(floor, ranges)) return absl::UnavailableError("writes are in flight");
  const DirtySet* dirty = state_.DirtyOf(migration);
  return Fenced{{state_.changes().id(), state_.changes().end()},
                dirty != nullptr && dirty->complete()};
}

absl::StatusOr<LogPlace> Engine::Track(uint64_t generation, const Id128& nonce,
                                       const HashRangeSet& ranges) {
  RETURN_IF_ERROR(Check(generation));
  ASSIGN_OR_RETURN(const uint64_t position, state_.Track(nonce, ranges));
  return LogPlace{state_.changes().id(), position};
}

absl::Status Engine::Untrack(uint64_t generation, const Id128& nonce) {
  RETURN_IF_ERROR(Check(generation));
  state_.Untrack(nonce);
  return absl::OkStatus();
}

absl::StatusOr<Engine::Changes> Engine::ReadChanges(uint64_t generation, const Id128& nonce,
                                                    const LogPlace& cursor, uint64_t ack) {
  RETURN_IF_ERROR(Check(generation));
  const absl::StatusOr<ChangeLog::Page> page =
      state_.changes().Read(nonce, cursor.log_id, cursor.position, ack, kPage);
  if (absl::IsFailedPrecondition(page.status())) return absl::DataLossError("suspect");
  RETURN_IF_ERROR(page.status());
  return Changes{page->next, page->keys};
}

absl::StatusOr<Engine::Page> Engine::Scan(uint64_t generation, const Id128& nonce,
                                          const std::string& cursor) {
  RETURN_IF_ERROR(Check(generation));
  const HashRangeSet* ranges = state_.TrackedRanges(nonce);
  if (ranges == nullptr || !state_.has_map()) return absl::DataLossError("not tracked");
  Page page;
  auto at = cursor.empty() ? values_.begin() : values_.upper_bound(cursor);
  for (size_t i = 0; i < kPage && at != values_.end(); ++i, ++at) {
    page.next = at->first;
    if (ranges->Contains(state_.PointOf(at->first))) page.keys.push_back(at->first);
  }
  if (at == values_.end()) page.next.clear();
  return page;
}

absl::StatusOr<std::vector<Item>> Engine::Dump(uint64_t generation,
                                               const std::vector<std::string>& keys) {
  RETURN_IF_ERROR(Check(generation));
  std::vector<Item> items;
  for (const std::string& key : keys) {
    const auto found = values_.find(key);
    items.push_back({key, found == values_.end() ? std::nullopt : std::optional(found->second)});
  }
  return items;
}

absl::StatusOr<Engine::Dirty> Engine::ReadDirty(uint64_t generation, const MigrationId& migration) {
  RETURN_IF_ERROR(Check(generation));
  const DirtySet* dirty = state_.DirtyOf(migration);
  Dirty result;
  if (dirty == nullptr || !dirty->complete()) return result;
  result.complete = true;
  result.keys = dirty->Read(0, 1'000'000).keys;
  return result;
}

absl::Status Engine::Open(uint64_t generation, const Id128& nonce, const MigrationId& migration,
                          const HashRangeSet& ranges) {
  RETURN_IF_ERROR(Check(generation));
  if (!state_.has_map()) return absl::UnavailableError("no map");
  return state_.Open(nonce, migration, ranges);
}

absl::Status Engine::Apply(uint64_t generation, const Id128& nonce,
                           const std::vector<Item>& items) {
  RETURN_IF_ERROR(Check(generation));
  const OwnerState::Transfer* transfer = state_.FindTransfer(nonce);
  if (transfer == nullptr) return absl::CancelledError("closed");
  OwnerState::Action action(state_, Cause::kTransfer);
  for (const Item& item : items) {
    const KeyPoint point = state_.PointOf(item.key);
    if (!transfer->ranges.Contains(point)) return absl::InvalidArgumentError("outside");
    if (!transfer->open.Contains(point)) continue;
    world_->Note([&] {
      return fmt::format("{} applies {} = {}", node_, item.key,
                         item.value ? std::to_string(*item.value) : "absent");
    });
    if (item.value) {
      values_[item.key] = *item.value;
    } else {
      values_.erase(item.key);
    }
    action.Touch(item.key);
  }
  return absl::OkStatus();
}

absl::Status Engine::CloseTransfer(uint64_t generation, const Id128& nonce) {
  RETURN_IF_ERROR(Check(generation));
  state_.Close(nonce);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Engine::PurgeTransfer(uint64_t generation, const Id128& nonce,
                                                  const std::string& cursor) {
  RETURN_IF_ERROR(Check(generation));
  const OwnerState::Transfer* transfer = state_.FindTransfer(nonce);
  if (transfer == nullptr) return absl::CancelledError("closed");
  OwnerState::Action action(state_, Cause::kTransfer);
  auto at = cursor.empty() ? values_.begin() : values_.upper_bound(cursor);
  std::string next;
  for (size_t i = 0; i < kPage && at != values_.end(); ++i) {
    next = at->first;
    const KeyPoint point = state_.PointOf(at->first);
    if (transfer->open.Contains(point) && !state_.view().Owns(point)) {
      const std::string key = at->first;
      world_->Note([&] { return fmt::format("{} purges {} for a transfer", node_, key); });
      at = values_.erase(at);
      action.Touch(key);
    } else {
      ++at;
    }
  }
  return at == values_.end() ? std::string() : next;
}

absl::Status Engine::PurgeLeft(uint64_t generation) {
  RETURN_IF_ERROR(Check(generation));
  if (!state_.has_map()) return absl::UnavailableError("no map");
  OwnerState::Action action(state_, Cause::kTransfer);
  for (auto at = values_.begin(); at != values_.end();) {
    if (state_.view().IsEntitled(state_.PointOf(at->first))) {
      ++at;
      continue;
    }
    const std::string key = at->first;
    world_->Note([&] { return fmt::format("{} releases {}", node_, key); });
    at = values_.erase(at);
    action.Touch(key);
  }
  return absl::OkStatus();
}

absl::Status Engine::PurgeAll(uint64_t generation) {
  RETURN_IF_ERROR(Check(generation));
  if (!state_.purge_due()) return absl::FailedPreconditionError("no purge is due");
  values_.clear();
  state_.PurgeDone();
  return absl::OkStatus();
}

Admission Engine::Admit(const std::string& key, Epoch epoch) const {
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  if (!state_.bound()) return admission;
  EpochWord word;
  word.history_tag = world_->history_tag();
  word.epoch = epoch;
  const KeyPoint point = state_.has_map() ? state_.PointOf(key) : KeyPoint();
  return state_.view().AdmitWrite(point, word, Boot());
}

Admission Engine::Write(const std::string& key, Epoch epoch, uint64_t value) {
  const Admission admission = Admit(key, epoch);
  if (!admission.ok()) return admission;
  if (!two_steps_) {
    Acknowledge(key, epoch, value);
    return admission;
  }
  const uint64_t id = next_write_++;
  in_flight_[id] = {key, epoch, value, false};
  After(world_->WriteTime(), [this, id] { Finish(id); });
  return admission;
}

void Engine::Acknowledge(const std::string& key, Epoch epoch, uint64_t value) {
  {
    OwnerState::Action action(state_, Cause::kAdmitted);
    values_[key] = value;
    action.Touch(key);
  }
  world_->Note([&] {
    return fmt::format("{} acknowledges {} = {} under epoch {}", node_, key, value, epoch.value);
  });
  world_->checker().OnAcknowledged(*this, key, epoch, value);
}

// What StillHeld of client/owner asks, immediately before the answer leaves.
void Engine::Finish(uint64_t id) {
  const InFlight write = in_flight_.at(id);
  in_flight_.erase(id);
  if (!IsMutant(Mutant::kF) && (write.lost || !Admit(write.key, write.epoch).ok())) return;
  Acknowledge(write.key, write.epoch, write.value);
}

void Engine::NoteLost() {
  for (auto& [id, write] : in_flight_) {
    if (!state_.has_map()) {
      write.lost = true;
      continue;
    }
    const KeyPoint point = state_.PointOf(write.key);
    const OwnerView& view = state_.view();
    write.lost = write.lost || !view.Owns(point) || write.epoch <= view.FloorOf(point) ||
                 write.epoch != view.membership()->RangeOf(point).epoch;
  }
}

bool Engine::IsDrained(Epoch floor, const HashRangeSet& ranges) const {
  if (IsMutant(Mutant::kF)) return true;
  for (const auto& [id, write] : in_flight_) {
    if (write.epoch <= floor && ranges.Contains(state_.PointOf(write.key))) return false;
  }
  return true;
}

Admission Engine::Read(const std::string& key, Epoch epoch, std::optional<uint64_t>* value) {
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  if (!state_.bound() || state_.purge_due() || !state_.has_map()) return admission;
  EpochWord word;
  word.history_tag = world_->history_tag();
  word.epoch = epoch;
  admission = state_.view().AdmitRead(state_.PointOf(key), word);
  if (admission.ok()) {
    const auto found = values_.find(key);
    *value = found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  return admission;
}

}  // namespace warmring::sim
