#include "client/loader/checked_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/status_macros.h"
#include "warmring/status.h"

namespace warmring {
namespace {

constexpr absl::Duration kMinPause = absl::Milliseconds(2);
constexpr absl::Duration kMaxPause = absl::Milliseconds(50);
// How long one refusal waits for the version that it names, before the owner is asked again.
constexpr absl::Duration kMaxVersionWait = absl::Milliseconds(500);
constexpr absl::Duration kForgetPatience = absl::Milliseconds(200);

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string Names(const Location& at) { return fmt::format("node {} ({})", at.node, at.address); }

RefusalReason ReasonFor(RefusalCode code) {
  switch (code) {
    case RefusalCode::kMoved:
      return RefusalReason::kNotOwner;
    case RefusalCode::kStale:
      return RefusalReason::kStaleEpoch;
    case RefusalCode::kHistory:
      return RefusalReason::kWrongHistory;
    case RefusalCode::kBehind:
      return RefusalReason::kOwnerBehind;
    case RefusalCode::kFencing:
    case RefusalCode::kBusy:
      return RefusalReason::kFencing;
    case RefusalCode::kNoLease:
      return RefusalReason::kNoLease;
  }
  return RefusalReason::kNotOwner;
}

// The refusal as an application sees it when no retry helped.
absl::Status ToStatus(const Refusal& refusal, const Location& at) {
  const RefusalInfo info{ReasonFor(refusal.code), refusal.word, refusal.version,
                         refusal.owner_address};
  return RefusalStatus(
      info, fmt::format("{} refused: {}: {}", Names(at), RefusalName(refusal.code), refusal.text));
}

// Errors of a server that will answer otherwise in a while.
bool IsPassing(std::string_view error) {
  constexpr std::array<std::string_view, 5> kPassing = {"LOADING ", "BUSY ", "TRYAGAIN ",
                                                        "MASTERDOWN ", "READONLY "};
  return std::any_of(kPassing.begin(), kPassing.end(),
                     [error](std::string_view prefix) { return error.starts_with(prefix); });
}

absl::Status CommandError(std::string_view error, const Location& at) {
  if (error.starts_with("OOM ")) {
    return absl::ResourceExhaustedError(fmt::format("{}: {}", Names(at), error));
  }
  if (error.starts_with("ERR unknown command 'WR.") ||
      error.starts_with("ERR unknown command `WR.")) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}: load warmring-redis.so into it", Names(at), error));
  }
  return absl::FailedPreconditionError(fmt::format("{}: {}", Names(at), error));
}

void AppendTtl(absl::Duration ttl, std::string& holder, CheckedCache::Args& argv) {
  if (ttl <= absl::ZeroDuration()) return;
  holder = std::to_string(std::max<int64_t>(absl::ToInt64Milliseconds(ttl), 1));
  argv.insert(argv.end(), {"PX", holder});
}

bool IsReadReply(const RedisReply& reply) {
  return reply.type == RedisReply::Type::kArray && reply.elements.size() == 3;
}

}  // namespace

CheckedCache::CheckedCache(const Router* router, MembershipWatch* watch, NodeTransport* nodes,
                           LoaderCounters* counters)
    : router_(router), watch_(watch), nodes_(nodes), counters_(counters), seed_(RandomSeed()) {}

CheckedCache::Trial CheckedCache::Begin(std::string_view what, std::string_view key,
                                        Instant deadline) {
  const uint64_t seed = seed_.fetch_add(1, std::memory_order_relaxed);
  return Trial{what, key, deadline, Backoff(kMinPause, kMaxPause, seed)};
}

absl::StatusOr<Location> CheckedCache::Locate(const Trial& trial) {
  std::optional<Location> at = router_->Locate(trial.key);
  if (at) return *at;
  const absl::Status waited = watch_->WaitForVersion(Version(1), trial.deadline - BootNow());
  at = router_->Locate(trial.key);
  if (at) return *at;
  return absl::UnavailableError(fmt::format("no membership to route by: {}", Message(waited)));
}

absl::StatusOr<CheckedCache::ReadReply> CheckedCache::Read(std::string_view command,
                                                           std::string_view key, const Args& args,
                                                           Instant deadline) {
  Trial trial = Begin(command, key, deadline);
  while (true) {
    ASSIGN_OR_RETURN(const Location at, Locate(trial));
    const std::string word = at.EpochWord();
    Args argv = {"WR.READ", word, command, key};
    argv.insert(argv.end(), args.begin(), args.end());
    absl::StatusOr<RedisReply> reply = nodes_->Command(at.address, argv, deadline);
    if (!reply.ok()) {
      // A connection that lay idle may have been closed since; a second one says more.
      if (absl::IsUnknown(reply.status()) && !std::exchange(trial.broke, true)) {
        ++counters_->retries;
        continue;
      }
      return absl::UnavailableError(
          fmt::format("{} cannot be reached: {}", Names(at), Message(reply.status())));
    }
    if (reply->IsError()) {
      RETURN_IF_ERROR(AfterError(reply->text, at, trial));
      continue;
    }
    if (!IsReadReply(*reply)) {
      return absl::InternalError(fmt::format("{}: not the reply of WR.READ", Names(at)));
    }
    ReadReply result;
    result.reply = std::move(reply->elements[0]);
    if (result.reply.IsError()) return CommandError(result.reply.text, at);
    result.token = std::move(reply->elements[1].text);
    const RedisReply& peek = reply->elements[2];
    result.peek_allowed = peek.integer == 1 || peek.text == "1";
    result.at = at;
    return result;
  }
}

absl::StatusOr<RedisReply> CheckedCache::Write(std::string_view command, std::string_view key,
                                               const Args& args, Repeat repeat, Instant deadline) {
  Trial trial = Begin(command, key, deadline);
  while (true) {
    ASSIGN_OR_RETURN(const Location at, Locate(trial));
    const std::string word = at.EpochWord();
    Args argv = {"WR.WRITE", word, command, key};
    argv.insert(argv.end(), args.begin(), args.end());
    absl::StatusOr<RedisReply> reply = nodes_->Command(at.address, argv, deadline);
    if (!reply.ok()) {
      const std::string why =
          fmt::format("{} cannot be reached: {}", Names(at), Message(reply.status()));
      if (absl::IsUnknown(reply.status()) && repeat == Repeat::kMustNot) {
        return absl::UnknownError(fmt::format("{}: {} may or may not have run", why, command));
      }
      RETURN_IF_ERROR(Pause(at, absl::UnavailableError(why), trial));
      continue;
    }
    if (!reply->IsError()) return reply;
    const std::optional<Refusal> refusal = ParseRefusal(reply->text);
    if (refusal && refusal->code == RefusalCode::kBusy && repeat == Repeat::kMustNot) {
      return absl::UnknownError(
          fmt::format("{}: {}: {} may or may not have run", Names(at), refusal->text, command));
    }
    RETURN_IF_ERROR(AfterError(reply->text, at, trial));
  }
}

// Ok: try again.
absl::Status CheckedCache::AfterError(const std::string& error, const Location& at, Trial& trial) {
  const std::optional<Refusal> refusal = ParseRefusal(error);
  if (refusal) return Cure(*refusal, at, trial);
  if (IsPassing(error)) {
    return Pause(at, absl::UnavailableError(fmt::format("{}: {}", Names(at), error)), trial);
  }
  return CommandError(error, at);
}

void CheckedCache::Count(RefusalCode code) {
  switch (code) {
    case RefusalCode::kMoved:
      ++counters_->refused_moved;
      break;
    case RefusalCode::kStale:
    case RefusalCode::kHistory:
      ++counters_->refused_stale;
      break;
    case RefusalCode::kBehind:
      ++counters_->refused_behind;
      break;
    case RefusalCode::kFencing:
    case RefusalCode::kBusy:
      ++counters_->refused_fencing;
      break;
    case RefusalCode::kNoLease:
      ++counters_->refused_no_lease;
      break;
  }
}

absl::Status CheckedCache::Cure(const Refusal& refusal, const Location& at, Trial& trial) {
  Count(refusal.code);
  // An epoch may be too new for an owner that is ahead of us: that of an override that has ended.
  const bool names_a_version = refusal.code == RefusalCode::kMoved ||
                               refusal.code == RefusalCode::kStale ||
                               refusal.code == RefusalCode::kBehind;
  // An owner that is behind us may say so as well: then there is nothing to wait for.
  if (names_a_version && refusal.version > at.version) {
    const absl::Duration left = trial.deadline - BootNow();
    if (left > absl::ZeroDuration() &&
        watch_->WaitForVersion(refusal.version, std::min(left, kMaxVersionWait)).ok()) {
      ++trial.attempts;
      ++counters_->retries;
      return absl::OkStatus();
    }
  }
  return Pause(at, ToStatus(refusal, at), trial);
}

// Waits a moment, less if a new version comes. Returns `why`, as Unavailable, once time is over.
absl::Status CheckedCache::Pause(const Location& at, const absl::Status& why, Trial& trial) {
  ++trial.attempts;
  const absl::Duration left = trial.deadline - BootNow();
  if (left <= absl::ZeroDuration()) {
    const std::string message =
        fmt::format("{} '{}' was not accepted in time, after {} attempts: {}", trial.what,
                    Printable(trial.key), trial.attempts, Message(why));
    const std::optional<RefusalInfo> refusal = RefusalOf(why);
    if (!refusal) return absl::UnavailableError(message);
    absl::Status status = absl::UnavailableError(message);
    RefusalStatus(*refusal, message).ForEachPayload([&status](auto url, const absl::Cord& payload) {
      status.SetPayload(url, payload);
    });
    return status;
  }
  ++counters_->retries;
  watch_->WaitForVersion(at.version.Next(), std::min(left, trial.backoff.Next())).IgnoreError();
  return absl::OkStatus();
}

void CheckedCache::ForgetAtPending(std::string_view key, Instant deadline) {
  Trial trial = Begin("WR.FORGET", key, std::min(deadline, BootNow() + kForgetPatience));
  while (true) {
    const std::optional<Location> at = router_->Locate(key);
    if (!at || at->pending_address.empty()) return;
    const absl::StatusOr<RedisReply> reply =
        nodes_->Command(at->pending_address, {"WR.FORGET", key}, trial.deadline);
    if (reply.ok() && !reply->IsError()) return;
    if (!Pause(*at, absl::UnavailableError("not told"), trial).ok()) {
      ++counters_->forgets_failed;
      return;
    }
  }
}

bool CheckedCache::Fill(const ReadReply& miss, std::string_view key, std::string_view value,
                        absl::Duration ttl, Instant deadline) {
  const std::string word = miss.at.EpochWord();
  std::string milliseconds;
  Args argv = {"WR.FILL", word, miss.token, key, value};
  AppendTtl(ttl, milliseconds, argv);
  const absl::StatusOr<RedisReply> reply = nodes_->Command(miss.at.address, argv, deadline);
  if (reply.ok() && reply->type == RedisReply::Type::kInteger && reply->integer == 1) return true;
  ++counters_->fills_void;
  return false;
}

std::optional<CheckedCache::Peeked> CheckedCache::Peek(const ReadReply& miss, std::string_view key,
                                                       Instant deadline) {
  if (!miss.peek_allowed || miss.at.previous_address.empty()) return std::nullopt;
  const std::string word = miss.at.EpochWord();
  const absl::StatusOr<RedisReply> reply =
      nodes_->Command(miss.at.previous_address, {"WR.PEEK", word, "GET", key}, deadline);
  if (!reply.ok() || reply->type != RedisReply::Type::kArray || reply->elements.size() != 2) {
    return std::nullopt;
  }
  const RedisReply& value = reply->elements[0];
  if (value.type != RedisReply::Type::kString) return std::nullopt;
  const int64_t left = reply->elements[1].integer;
  if (left < -1) return std::nullopt;  // it expired between the two
  return Peeked{value.text, absl::Milliseconds(left < 0 ? 0 : std::max<int64_t>(left, 1))};
}

}  // namespace warmring
