#include "core/ownership/owner_view.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace warmring {
namespace {

constexpr size_t kHistoryTagBytes = 8;
constexpr size_t kMaxEpochDigits = 20;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

absl::Status BadWord(std::string_view word) {
  return absl::InvalidArgumentError(fmt::format(
      "epoch word '{}': use 8 lower-case hex digits of the history, ':' and the range's "
      "epoch in decimal, for example a1b2c3d4:17",
      Printable(word)));
}

// The part of `floor` whose ranges are still held under an epoch that the floor closes. On a plane
// that this map does not know yet, all of it; on one that is over, none: its keys are elsewhere,
// and what gave them back was decided after the floor.
HashRangeSet StillClosed(const Membership& membership, const Floor& floor) {
  HashRangeSet closed;
  for (const Plane plane : floor.ranges.Planes()) {
    if (plane >= membership.data().next_plane) {
      closed = closed.Union(floor.ranges.On(plane));
    } else if (plane == kCommonPlane || membership.OverrideOn(plane) != nullptr) {
      closed = closed.Union(
          floor.ranges.On(plane).Intersection(membership.HeldUpTo(plane, floor.epoch)));
    }
  }
  return closed;
}

}  // namespace

absl::StatusOr<EpochWord> EpochWord::Parse(std::string_view word) {
  if (word.size() < kHistoryTagBytes + 2 || word[kHistoryTagBytes] != ':') return BadWord(word);
  EpochWord parsed;
  parsed.history_tag = word.substr(0, kHistoryTagBytes);
  if (!std::all_of(parsed.history_tag.begin(), parsed.history_tag.end(), IsHexDigit)) {
    return BadWord(word);
  }
  const std::string_view digits = word.substr(kHistoryTagBytes + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.epoch.value);
  const bool number = error == std::errc() && end == digits.data() + digits.size();
  if (!number || digits.size() > kMaxEpochDigits) return BadWord(word);
  return parsed;
}

std::string FormatEpochWord(const HistoryId& history, Epoch epoch) {
  return fmt::format("{}:{}", history.Tag(), epoch.value);
}

OwnerView::OwnerView(HistoryId history, KeyspaceId keyspace, NodeId node, Incarnation incarnation)
    : history_(history),
      history_tag_(history.Tag()),
      keyspace_(std::move(keyspace)),
      node_(std::move(node)),
      incarnation_(incarnation) {}

absl::Status OwnerView::Install(Membership::Ptr membership) {
  if (membership->history() != history_) {
    return absl::FailedPreconditionError(
        fmt::format("history: the membership is of {}, this owner is bound to {}: attach again",
                    membership->history().ToString(), history_.ToString()));
  }
  if (membership->spec().id != keyspace_) {
    return absl::InvalidArgumentError(
        fmt::format("keyspace: the membership is of '{}', this owner is bound to '{}'",
                    membership->spec().id, keyspace_));
  }
  if (membership_ && membership->version() < membership_->version()) {
    return absl::FailedPreconditionError(
        fmt::format("version: {} is older than {}, which is installed", membership->version().value,
                    membership_->version().value));
  }
  if (membership_ && membership->version() == membership_->version()) {
    if (membership->digest() == membership_->digest()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("version: {} is installed with digest {:016x}, and another one has {:016x}",
                    membership->version().value, membership_->digest(), membership->digest()));
  }
  self_ = membership->FindNode(node_);
  membership_ = std::move(membership);
  ForgetFloors();
  ApplyWaitingLease();
  return absl::OkStatus();
}

uint64_t OwnerView::Renew(Instant now) {
  renewal_sent_ = now;
  return ++seq_;
}

absl::Status OwnerView::Grant(const LeaseGrant& grant) {
  for (const Floor& floor : grant.floors) Fence(floor.ranges, floor.epoch);
  if (!renewal_sent_ || grant.seq != seq_) {
    return absl::FailedPreconditionError(fmt::format(
        "seq: {} is not the outstanding renewal, which is {}: renew again", grant.seq, seq_));
  }
  if (grant.term < term_) {
    return absl::FailedPreconditionError(
        fmt::format("term: {} is over, this owner has seen {}", grant.term.value, term_.value));
  }
  term_ = grant.term;
  waiting_lease_ = WaitingLease{*renewal_sent_ + grant.ttl, grant.version};
  ApplyWaitingLease();
  return absl::OkStatus();
}

void OwnerView::ApplyWaitingLease() {
  if (!waiting_lease_ || !membership_ || membership_->version() < waiting_lease_->version) return;
  lease_until_ =
      lease_until_ ? std::max(*lease_until_, waiting_lease_->until) : waiting_lease_->until;
  waiting_lease_.reset();
}

void OwnerView::Fence(const HashRangeSet& ranges, Epoch epoch) {
  Floor raised{ranges, epoch};
  std::vector<Floor> floors;
  for (Floor& floor : floors_) {
    if (floor.epoch > epoch) {
      raised.ranges = raised.ranges.Minus(floor.ranges);
    } else {
      // What both cover is closed by the higher one alone, so that repeating a floor adds nothing.
      floor.ranges = floor.ranges.Minus(ranges);
    }
    if (!floor.ranges.empty()) floors.push_back(std::move(floor));
  }
  for (Floor& floor : floors) {
    if (floor.epoch != epoch) continue;
    floor.ranges = floor.ranges.Union(raised.ranges);
    raised.ranges = HashRangeSet();
  }
  if (!raised.ranges.empty()) floors.push_back(std::move(raised));
  floors_ = std::move(floors);
  ForgetFloors();
}

absl::Status OwnerView::CheckPlanes(const HashRangeSet& ranges) const {
  const std::vector<Plane> planes = ranges.Planes();
  if (planes.empty() || planes.back() == kCommonPlane) return absl::OkStatus();
  if (membership_ != nullptr && membership_->KnowsPlanesOf(ranges)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("version {} of the membership does not know the override on plane {} yet: "
                  "install a newer one",
                  membership_ == nullptr ? 0 : membership_->version().value, planes.back()));
}

// A floor may be forgotten only where the installed map has a higher epoch: no older map can come
// back, so that it cannot refuse anything any more.
void OwnerView::ForgetFloors() {
  if (!membership_ || floors_.empty()) return;
  std::vector<Floor> floors;
  for (const Floor& floor : floors_) {
    HashRangeSet closed = StillClosed(*membership_, floor);
    if (!closed.empty()) floors.push_back({std::move(closed), floor.epoch});
  }
  floors_ = std::move(floors);
}

Epoch OwnerView::FloorOf(KeyPoint point) const {
  Epoch highest;
  for (const Floor& floor : floors_) {
    if (floor.epoch > highest && floor.ranges.Contains(point)) highest = floor.epoch;
  }
  return highest;
}

Admission OwnerView::Describe(KeyPoint point, Verdict verdict) const {
  Admission admission;
  admission.verdict = verdict;
  if (!membership_) return admission;
  const OwnedRange range = membership_->RangeOf(point);
  admission.epoch = range.epoch;
  admission.version = membership_->version();
  admission.owner = range.owner;
  return admission;
}

Admission OwnerView::AdmitEpoch(KeyPoint point, const EpochWord& word) const {
  if (word.history_tag != history_tag_) return Describe(point, Verdict::kWrongHistory);
  if (!membership_) return Describe(point, Verdict::kOwnerBehind);
  Admission admission = Describe(point, Verdict::kAdmit);
  const bool mine = self_ && admission.owner == self_;
  if (word.epoch < admission.epoch) {
    admission.verdict = mine ? Verdict::kStaleEpoch : Verdict::kNotOwner;
  } else if (word.epoch > admission.epoch) {
    // Never adopted: an owner learns of ownership from the server alone.
    admission.verdict = Verdict::kOwnerBehind;
  } else if (!mine) {
    admission.verdict = Verdict::kNotOwner;
  }
  return admission;
}

Admission OwnerView::AdmitWrite(KeyPoint point, const EpochWord& word, Instant now) const {
  if (!HasLease(now)) return Describe(point, Verdict::kNoLease);
  Admission admission = AdmitEpoch(point, word);
  if (admission.ok() && admission.epoch <= FloorOf(point)) admission.verdict = Verdict::kFencing;
  return admission;
}

Admission OwnerView::AdmitRead(KeyPoint point, const EpochWord& word) const {
  Admission admission = AdmitEpoch(point, word);
  if (admission.ok() && admission.epoch <= FloorOf(point)) admission.verdict = Verdict::kFencing;
  return admission;
}

Admission OwnerView::AdmitPlain(KeyPoint point, Instant now) const {
  if (!HasLease(now)) return Describe(point, Verdict::kNoLease);
  Admission admission = Describe(point, Verdict::kAdmit);
  if (!Owns(point)) {
    admission.verdict = Verdict::kNotOwner;
  } else if (admission.epoch <= FloorOf(point)) {
    admission.verdict = Verdict::kFencing;
  }
  return admission;
}

Admission OwnerView::AdmitPeek(KeyPoint point, const EpochWord& word) const {
  Admission admission = AdmitEpoch(point, word);
  if (admission.verdict != Verdict::kAdmit && admission.verdict != Verdict::kNotOwner) {
    return admission;
  }
  const Move* move = MoveOf(point);
  const bool previous = move != nullptr && move->phase == MovePhase::kGrace && move->from == node_;
  const bool present = previous && word.epoch == admission.epoch;
  admission.verdict = present ? Verdict::kAdmit : Verdict::kNotOwner;
  return admission;
}

bool OwnerView::Owns(KeyPoint point) const {
  return membership_ && self_ && membership_->RangeOf(point).owner == *self_;
}

const Move* OwnerView::MoveOf(KeyPoint point) const {
  if (!membership_) return nullptr;
  const int at = membership_->MoveOf(point);
  return at < 0 ? nullptr : &membership_->moves()[static_cast<size_t>(at)];
}

bool OwnerView::IsEntitled(KeyPoint point) const {
  if (Owns(point)) return true;
  const Move* move = MoveOf(point);
  return move != nullptr && (move->from == node_ || move->to == node_);
}

HashRangeSet OwnerView::EntitledRanges() const {
  if (!membership_) return {};
  HashRangeSet entitled = membership_->OwnedBy(node_);
  for (const Move& move : membership_->moves()) {
    if (move.from == node_ || move.to == node_) entitled = entitled.Union(move.ranges);
  }
  return entitled;
}

}  // namespace warmring
