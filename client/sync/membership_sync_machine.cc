#include "client/sync/membership_sync_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/base/failpoint.h"

namespace warmring {
namespace {

// A server that answers so often with what cannot be taken will not do better
// the next time.
constexpr uint32_t kMaxFailedSnapshots = 3;
// Bounds the count of pieces; a server's are up to 1 MiB each.
constexpr size_t kMinPieceBytes = 4096;

absl::Status FromRefusal(const WatchRefusal& refusal) {
  const std::string message = fmt::format("the server refused the watch: {}: {}", refusal.reason,
                                          Printable(refusal.message, 300));
  if (refusal.reason == "NOT_FOUND") return absl::NotFoundError(message);
  if (refusal.reason == "NOT_ALLOWED") return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

MembershipSyncMachine::MembershipSyncMachine(MembershipSyncOptions options,
                                             Membership::Ptr last_known_good)
    : options_(std::move(options)),
      current_(std::move(last_known_good)),
      backoff_(options_.backoff_min, options_.backoff_max, options_.seed),
      turn_(options_.seed % 1024) {}

MembershipSyncMachine::Step MembershipSyncMachine::Start(Instant now) {
  wake_at_ = now;
  return OnTimer(now);
}

MembershipSyncMachine::Step MembershipSyncMachine::OnConnected(Instant now) {
  Step step;
  if (state_ != State::kConnecting) return Done(std::move(step));
  state_ = State::kSubscribed;
  wake_at_ = now + options_.idle_timeout;
  assembly_.reset();
  wants_snapshot_ = false;
  ahead_ = false;
  failed_snapshots_ = 0;
  WatchSubscribe subscribe;
  if (current_ != nullptr) subscribe = {current_->history(), current_->version()};
  step.actions.emplace_back(Send{subscribe});
  return Done(std::move(step));
}

MembershipSyncMachine::Step MembershipSyncMachine::OnMessage(Instant now,
                                                             const WatchMessage& message) {
  Step step;
  if (state_ != State::kSubscribed) return Done(std::move(step));
  wake_at_ = now + options_.idle_timeout;
  if (const auto* piece = std::get_if<SnapshotPiece>(&message)) {
    OnPiece(now, *piece, step);
  } else if (const auto* delta = std::get_if<Delta>(&message)) {
    OnDelta(now, *delta, step);
  } else if (const auto* progress = std::get_if<WatchProgress>(&message)) {
    OnProgress(now, *progress, step);
  } else if (const auto* refusal = std::get_if<WatchRefusal>(&message)) {
    GiveUp(now, FromRefusal(*refusal), step);
  } else {
    AskForSnapshot(now, std::get<WatchGarbage>(message).why, step);
  }
  return Done(std::move(step));
}

MembershipSyncMachine::Step MembershipSyncMachine::OnDisconnected(Instant now,
                                                                  const absl::Status& why) {
  if (state_ != State::kWaiting) {
    Wait(now, why.ok() ? absl::UnavailableError("the server ended the watch") : why);
  }
  return Done({});
}

MembershipSyncMachine::Step MembershipSyncMachine::OnTimer(Instant now) {
  Step step;
  if (now < wake_at_) return Done(std::move(step));
  if (state_ == State::kWaiting) {
    state_ = State::kConnecting;
    wake_at_ = now + options_.idle_timeout;
    step.actions.emplace_back(Connect{turn_++});
  } else {
    GiveUp(now,
           absl::UnavailableError(fmt::format("the server was silent for {}",
                                              absl::FormatDuration(options_.idle_timeout))),
           step);
  }
  return Done(std::move(step));
}

void MembershipSyncMachine::OnPiece(Instant now, const SnapshotPiece& piece, Step& step) {
  // The rest of a snapshot that was given up before this subscription.
  if (wants_snapshot_ && !assembly_ && piece.index != 0) return;
  if (piece.index == 0) {
    const size_t most = options_.max_snapshot_bytes / kMinPieceBytes + 1;
    if (piece.count == 0 || piece.count > most) {
      AskForSnapshot(now,
                     absl::InvalidArgumentError(
                         fmt::format("snapshot of version {}: {} pieces, at most {} are taken",
                                     piece.version.value, piece.count, most)),
                     step);
      return;
    }
    assembly_ = Assembly{piece.version, piece.count, 0, {}};
  }
  if (!assembly_ || piece.version != assembly_->version || piece.count != assembly_->count ||
      piece.index != assembly_->next ||
      piece.data.size() > options_.max_snapshot_bytes - assembly_->bytes.size()) {
    AskForSnapshot(now,
                   absl::InvalidArgumentError(fmt::format(
                       "snapshot of version {}: piece {} of {} ({} bytes) does not follow",
                       piece.version.value, piece.index, piece.count, piece.data.size())),
                   step);
    return;
  }
  if (piece.index != 0) WARMRING_FP("snapshot.half");
  assembly_->bytes.append(piece.data);
  if (++assembly_->next < assembly_->count) return;
  const Assembly complete = *std::exchange(assembly_, std::nullopt);
  OnSnapshot(now, complete.version, complete.bytes, step);
}

void MembershipSyncMachine::OnSnapshot(Instant now, Version version, const std::string& bytes,
                                       Step& step) {
  absl::StatusOr<Membership::Ptr> decoded = options_.decode(bytes);
  if (!decoded.ok()) {
    AskForSnapshot(now, decoded.status(), step);
    return;
  }
  const Membership& membership = **decoded;
  if (membership.spec().id != options_.keyspace || membership.version() != version) {
    AskForSnapshot(now,
                   absl::InvalidArgumentError(fmt::format(
                       "snapshot of {} version {} holds {} version {}", options_.keyspace,
                       version.value, membership.spec().id, membership.version().value)),
                   step);
    return;
  }
  if (current_ != nullptr && membership.history() == current_->history() &&
      membership.version() < current_->version()) {
    GiveUp(now,
           absl::UnavailableError(
               fmt::format("the server is behind: it has version {}, and {} is here "
                           "already; was its store "
                           "restored without a new history?",
                           membership.version().value, current_->version().value)),
           step);
    return;
  }
  Take(now, *std::move(decoded), step);
}

void MembershipSyncMachine::OnDelta(Instant now, const Delta& delta, Step& step) {
  if (wants_snapshot_) return;
  if (current_ == nullptr || assembly_) {
    AskForSnapshot(now, absl::FailedPreconditionError("a delta came where a snapshot was due"),
                   step);
    return;
  }
  if (delta.history == current_->history() && delta.to <= current_->version()) return;
  absl::StatusOr<Membership::Ptr> next = ApplyDelta(*current_, delta);
  if (!next.ok()) {
    AskForSnapshot(now, next.status(), step);
    return;
  }
  Take(now, *std::move(next), step);
}

void MembershipSyncMachine::OnProgress(Instant now, const WatchProgress& progress, Step& step) {
  if (progress.version.value == 0) return;  // of the stream as a whole: a sign of life
  watchers_ = std::max<uint32_t>(progress.watchers, 1);
  if (wants_snapshot_ || assembly_) return;
  const Version have = current_ == nullptr ? Version(0) : current_->version();
  if (progress.version > have) {
    // An idle server has sent everything; the delta between was lost if that is
    // said twice.
    if (std::exchange(ahead_, true)) {
      AskForSnapshot(now,
                     absl::DataLossError(fmt::format("version {} is announced, {} never came",
                                                     progress.version.value, have.Next().value)),
                     step);
    }
    return;
  }
  if (progress.version != have) return;
  fresh_at_ = now;
  status_ = absl::OkStatus();
  backoff_.Reset();
}

void MembershipSyncMachine::Take(Instant now, Membership::Ptr membership, Step& step) {
  current_ = std::move(membership);
  wants_snapshot_ = false;
  ahead_ = false;
  failed_snapshots_ = 0;
  fresh_at_ = now;
  status_ = absl::OkStatus();
  backoff_.Reset();
  step.actions.emplace_back(Install{current_});
  step.actions.emplace_back(Send{WatchAcknowledge{current_->version()}});
}

void MembershipSyncMachine::AskForSnapshot(Instant now, const absl::Status& why, Step& step) {
  assembly_.reset();
  wants_snapshot_ = true;
  ahead_ = false;
  if (++failed_snapshots_ > kMaxFailedSnapshots) {
    GiveUp(now, why, step);
    return;
  }
  status_ = why;
  step.actions.emplace_back(Send{WatchSubscribe{}});
}

void MembershipSyncMachine::GiveUp(Instant now, const absl::Status& why, Step& step) {
  step.actions.emplace_back(Disconnect{});
  Wait(now, why);
}

void MembershipSyncMachine::Wait(Instant now, const absl::Status& why) {
  state_ = State::kWaiting;
  status_ = why;
  assembly_.reset();
  wake_at_ = now + backoff_.Next();
}

MembershipSyncMachine::Step MembershipSyncMachine::Done(Step step) const {
  step.wake_at = wake_at_;
  return step;
}

}  // namespace warmring
