#include "core/ownership/owner_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/mutant.h"

namespace warmring {
namespace {

constexpr size_t kHistoryTagBytes = 8;
constexpr size_t kMaxEpochDigits = 20;

constexpr std::array<bool, 256> kIsHexDigit = [] {
  std::array<bool, 256> is{};
  for (const char c : std::string_view("0123456789abcdef"))
    is[static_cast<unsigned char>(c)] = true;
  return is;
}();

// Each request does this: a loop is faster than from_chars. False: it is no number, or too large.
inline bool ParseDecimal(std::string_view digits, uint64_t& value) {
  uint64_t sum = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    const auto digit = static_cast<uint64_t>(static_cast<unsigned char>(digits[i])) - '0';
    if (digit > 9) return false;
    // Nineteen digits fit always.
    if (i >= 19 && sum > (UINT64_MAX - digit) / 10) return false;
    sum = sum * 10 + digit;
  }
  value = sum;
  return true;
}

// A tag that was parsed has this length; comparing eight bytes is one instruction.
inline bool IsSameTag(std::string_view a, std::string_view b) {
  return a.size() == kHistoryTagBytes && b.size() == kHistoryTagBytes &&
         std::memcmp(a.data(), b.data(), kHistoryTagBytes) == 0;
}

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

bool EpochWord::Read(std::string_view word, EpochWord& parsed) {
  if (word.size() < kHistoryTagBytes + 2 || word[kHistoryTagBytes] != ':' ||
      word.size() > kHistoryTagBytes + 1 + kMaxEpochDigits) {
    return false;
  }
  bool is_tag = true;
  for (size_t i = 0; i < kHistoryTagBytes; ++i) {
    is_tag &= kIsHexDigit[static_cast<unsigned char>(word[i])];
  }
  parsed.history_tag = word.substr(0, kHistoryTagBytes);
  return is_tag && ParseDecimal(word.substr(kHistoryTagBytes + 1), parsed.epoch.value);
}

absl::StatusOr<EpochWord> EpochWord::Parse(std::string_view word) {
  EpochWord parsed;
  if (!Read(word, parsed)) return BadWord(word);
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
  if (grant.term < term_ && !IsMutant(Mutant::kK)) {
    return absl::FailedPreconditionError(
        fmt::format("term: {} is over, this owner has seen {}", grant.term.value, term_.value));
  }
  term_ = grant.term;
  waiting_lease_ = WaitingLease{*renewal_sent_ + grant.ttl, grant.version};
#ifdef WARMRING_MUTANTS
  if (IsMutant(Mutant::kC)) waiting_lease_->until = std::max(*renewal_sent_, read_) + grant.ttl;
#endif
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
  if (IsMutant(Mutant::kB2)) return highest;
  for (const Floor& floor : floors_) {
    if (floor.epoch > highest && floor.ranges.Contains(point)) highest = floor.epoch;
  }
  return highest;
}

Admission OwnerView::Describe(KeyPoint point, Verdict verdict) const {
  Admission admission;
  admission.verdict = verdict;
  if (!membership_) return admission;
  admission.version = membership_->version();
  if (point.plane == kCommonPlane) [[likely]] {
    // What RangeOf says, from the dense table.
    const Membership::Holder holder = membership_->HolderOf(point.hash);
    admission.epoch = membership_->tenures()[holder.tenure].epoch;
    admission.owner = holder.owner;
    return admission;
  }
  const OwnedRange range = membership_->RangeOf(point);
  admission.epoch = range.epoch;
  admission.owner = range.owner;
  return admission;
}

Admission OwnerView::AdmitEpoch(KeyPoint point, const EpochWord& word) const {
  // One result, filled where the caller wants it: copies cost as much as the rule.
  Admission admission = Describe(point, Verdict::kAdmit);
  if (!IsSameTag(word.history_tag, history_tag_)) {
    admission.verdict = Verdict::kWrongHistory;
    return admission;
  }
  if (!membership_) {
    admission.verdict = Verdict::kOwnerBehind;
    return admission;
  }
  const bool mine = self_ && admission.owner == self_;
  if (mine && word.epoch < admission.epoch && IsMutant(Mutant::kB1)) return admission;
  if (mine && word.epoch > admission.epoch && IsMutant(Mutant::kL)) return admission;
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
  Admission admission =
      HasLease(now) ? AdmitEpoch(point, word) : Describe(point, Verdict::kNoLease);
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
