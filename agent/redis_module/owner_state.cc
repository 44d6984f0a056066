#include "agent/redis_module/owner_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {

OwnerState::OwnerState(const Incarnation& incarnation, uint64_t generation,
                       const OwnerLimits& limits)
    : limits_(limits), incarnation_(incarnation), generation_(generation) {}

void OwnerState::StartOver(const Incarnation& fresh) {
  incarnation_ = fresh;
  ++generation_;  // an agent that is still attached is refused
  binding_.reset();
  purge_due_ = false;
  view_.reset();
  changes_.reset();
  tokens_.reset();
  forgotten_.reset();
  dirty_.clear();
  activated_.clear();
  transfers_.clear();
  donations_.clear();
}

OwnerState::Attachment OwnerState::Attach(const OwnerBinding& binding, OnRestart on_restart,
                                          uint64_t keys, const Incarnation& fresh) {
  if (binding_ && *binding_ != binding) StartOver(fresh);
  ++generation_;
  if (!binding_) {
    binding_ = binding;
    view_.emplace(binding.history, binding.keyspace, binding.node, incarnation_);
    changes_ = std::make_unique<ChangeLog>(incarnation_, limits_.changes_max_bytes);
    tokens_ = std::make_unique<FillTokens>(incarnation_);
    forgotten_ = std::make_unique<ForgottenLog>(limits_.changes_max_bytes);
    purge_due_ = on_restart == OnRestart::kPurge && keys > 0;
  }
  return {generation_, purge_due_};
}

absl::Status OwnerState::Install(Membership::Ptr membership, Instant now) {
  const Membership::Ptr before = view_->membership();
  RETURN_IF_ERROR(view_->Install(std::move(membership)));
  // A token is proof by the epoch, and keys of an override that is over have their old epoch again.
  if (before != nullptr && HasEndedOverrides(*before, *view_->membership())) tokens_->BumpAll();
  NoteActivations(before.get(), now);
  NarrowTransfers();
  DropDonations();
  forgotten_->Settle(*view_);
  return absl::OkStatus();
}

void OwnerState::NoteActivations(const Membership* before, Instant now) {
  std::map<Activation, Instant> activated;
  std::map<MigrationId, DirtySet> dirty;
  for (const Move& move : view_->membership()->moves()) {
    if (move.phase != MovePhase::kGrace || move.to != view_->node()) continue;
    const auto kept = dirty_.find(move.migration);
    DirtySet& set = kept != dirty_.end()
                        ? dirty.try_emplace(move.migration, std::move(kept->second)).first->second
                        : dirty.try_emplace(move.migration, limits_.dirty_max_keys).first->second;
    const Activation activation(move.migration, move.wave, move.from);
    const auto known = activated_.find(activation);
    if (known != activated_.end()) {
      activated.insert(*known);
      continue;
    }
    activated.emplace(activation, now);
    // Only who saw the range in other hands knows that it missed no write since it got it.
    const bool seen = before != nullptr && !before->OwnedBy(view_->node()).Intersects(move.ranges);
    if (!seen) set.MarkIncomplete();
  }
  activated_ = std::move(activated);
  dirty_ = std::move(dirty);
}

HashRangeSet OwnerState::ReceivedRanges(const MigrationId& migration) const {
  HashRangeSet received;
  for (const Move& move : view_->membership()->moves()) {
    if (move.migration != migration) continue;
    const bool warmed = move.phase == MovePhase::kWarming && move.to == view_->node();
    const bool undone = move.phase == MovePhase::kGrace && move.from == view_->node();
    if (warmed || undone) received = received.Union(move.ranges);
  }
  return received;
}

void OwnerState::NarrowTransfers() {
  for (auto it = transfers_.begin(); it != transfers_.end();) {
    Transfer& transfer = it->second;
    transfer.open = transfer.open.Intersection(ReceivedRanges(transfer.migration));
    it = transfer.open.empty() ? transfers_.erase(it) : std::next(it);
  }
}

bool OwnerState::IsMoving(const HashRangeSet& ranges) const {
  const std::vector<Move>& moves = view_->membership()->moves();
  return std::any_of(moves.begin(), moves.end(),
                     [&](const Move& move) { return move.ranges.Intersects(ranges); });
}

// A donor's agent may die without a word; its transfers end with the moves that they served. A
// transfer may be tracked before the map with its move arrives, hence `seen_in_map`.
void OwnerState::DropDonations() {
  for (auto it = donations_.begin(); it != donations_.end();) {
    const bool in_map = IsMoving(it->second.ranges);
    const bool over = it->second.seen_in_map && !in_map;
    it->second.seen_in_map |= in_map;
    if (over) changes_->Untrack(it->first);
    it = over ? donations_.erase(it) : std::next(it);
  }
}

KeyPoint OwnerState::PointOf(std::string_view key) const {
  return view_->membership()->PointOf(key);
}

OwnerState::Action::Action(OwnerState& state, Cause cause) : state_(state) {
  state_.cause_ = cause;
  state_.touched_.clear();
}

OwnerState::Action::~Action() { state_.cause_ = Cause::kUnknown; }

void OwnerState::Action::Touch(std::string_view key) {
  if (!state_.has_map()) return;
  const std::vector<std::string>& touched = state_.touched_;
  if (std::find(touched.begin(), touched.end(), key) != touched.end()) return;
  state_.Record(key, state_.PointOf(key), true);
}

void OwnerState::NoteChange(std::string_view key) {
  if (!has_map()) return;
  const KeyPoint point = PointOf(key);
  const bool foreign = !view_->Owns(point);
  if (foreign && (cause_ == Cause::kUnknown || cause_ == Cause::kAdmitted)) {
    ++counters_.faults;
    changes_->Lose("a key changed in a range that this node does not own");
  }
  if (cause_ != Cause::kUnknown) touched_.emplace_back(key);
  Record(key, point, true);
}

void OwnerState::NoteVanished(std::string_view key) {
  // The next owner's copy is not older for it: neither fills nor grace reads suffer.
  if (has_map()) Record(key, PointOf(key), false);
}

void OwnerState::Record(std::string_view key, KeyPoint point, bool written) {
  changes_->Append(key, point);
  if (!written) return;
  tokens_->Bump(point.hash);
  const Move* move = view_->MoveOf(point);
  if (move == nullptr || move->phase != MovePhase::kGrace || move->to != view_->node()) return;
  dirty_.at(move->migration).Add(key);
}

void OwnerState::NoteLoss(std::string_view reason) {
  if (!bound()) return;
  changes_->Lose(reason);
  donations_.clear();
  tokens_->BumpAll();
  for (auto& [migration, set] : dirty_) set.MarkIncomplete();
}

bool OwnerState::MayPeek(std::string_view key, KeyPoint point, Instant now) const {
  const Move* move = view_->MoveOf(point);
  if (move == nullptr || move->phase != MovePhase::kGrace || move->to != view_->node()) {
    return false;
  }
  const Instant activated = activated_.at({move->migration, move->wave, move->from});
  const absl::Duration grace = absl::Milliseconds(view_->membership()->spec().grace_ms);
  return now < activated + grace && !dirty_.at(move->migration).MayContain(key);
}

const DirtySet* OwnerState::DirtyOf(const MigrationId& migration) const {
  const auto found = dirty_.find(migration);
  return found == dirty_.end() ? nullptr : &found->second;
}

size_t OwnerState::dirty_keys() const {
  size_t keys = 0;
  for (const auto& [migration, set] : dirty_) keys += set.size();
  return keys;
}

absl::Status OwnerState::Open(const Id128& nonce, const MigrationId& migration,
                              const HashRangeSet& ranges) {
  const auto found = transfers_.find(nonce);
  if (found != transfers_.end()) {
    if (found->second.migration == migration && found->second.ranges == ranges) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        fmt::format("nonce: {} is open for other ranges or another migration: use a new nonce",
                    nonce.ToString()));
  }
  if (ranges.empty() || !ReceivedRanges(migration).Includes(ranges)) {
    return absl::FailedPreconditionError(fmt::format(
        "ranges: version {} of the map does not make '{}' their recipient in migration '{}'",
        view_->membership()->version().value, view_->node(), migration));
  }
  if (transfers_.size() >= ChangeLog::kMaxTransfers) {
    return absl::ResourceExhaustedError(
        fmt::format("{} transfers are open, no more are possible: close one", transfers_.size()));
  }
  transfers_[nonce] = {migration, ranges, ranges};
  return absl::OkStatus();
}

const OwnerState::Transfer* OwnerState::FindTransfer(const Id128& nonce) const {
  const auto found = transfers_.find(nonce);
  return found == transfers_.end() ? nullptr : &found->second;
}

absl::StatusOr<uint64_t> OwnerState::Track(const Id128& nonce, const HashRangeSet& ranges) {
  RETURN_IF_ERROR(view_->CheckPlanes(ranges));
  ASSIGN_OR_RETURN(const uint64_t position, changes_->Track(nonce, ranges));
  donations_.insert_or_assign(nonce, Donation{ranges, has_map() && IsMoving(ranges)});
  return position;
}

void OwnerState::Untrack(const Id128& nonce) {
  changes_->Untrack(nonce);
  donations_.erase(nonce);
}

const HashRangeSet* OwnerState::TrackedRanges(const Id128& nonce) const {
  return changes_->RangesOf(nonce);
}

}  // namespace warmring
