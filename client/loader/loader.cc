#include "warmring/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "client/loader/checked_cache.h"
#include "client/loader/fill_budget.h"
#include "client/loader/flight_table.h"
#include "client/loader/loader_core.h"
#include "client/router/client_core.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

using Result = FlightTable::Result;
using ReadReply = CheckedCache::ReadReply;

CacheReply ToCacheReply(RedisReply reply) {
  CacheReply result;
  switch (reply.type) {
    case RedisReply::Type::kNil:
      break;
    case RedisReply::Type::kString:
    case RedisReply::Type::kStatus:
    case RedisReply::Type::kError:
      result.type = CacheReply::Type::kString;
      result.text = std::move(reply.text);
      break;
    case RedisReply::Type::kInteger:
      result.type = CacheReply::Type::kInteger;
      result.integer = reply.integer;
      break;
    case RedisReply::Type::kArray:
      result.type = CacheReply::Type::kArray;
      for (RedisReply& element : reply.elements) {
        result.elements.push_back(ToCacheReply(std::move(element)));
      }
      break;
  }
  return result;
}

bool IsDelete(std::string_view command) {
  std::string upper(command);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  return upper == "DEL" || upper == "UNLINK";
}

// The leader of a look gave up by its own clock or budget: that says nothing to the others.
bool IsTheLeadersOwn(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

class LoaderImpl final : public Loader {
 public:
  LoaderImpl(LoaderSeams seams, Origin origin, LoaderOptions options)
      : router_(seams.router),
        watch_(seams.watch),
        owned_nodes_(std::move(seams.owned_nodes)),
        origin_(std::move(origin)),
        options_(std::move(options)),
        cache_(seams.router, seams.watch,
               owned_nodes_ != nullptr ? owned_nodes_.get() : seams.nodes, &counters_) {}

  Result Get(std::string_view key, absl::Duration timeout) override {
    return Counted(DoGet(key, timeout));
  }

  absl::Status Set(std::string_view key, std::string_view value, absl::Duration ttl,
                   absl::Duration timeout) override {
    std::string milliseconds;
    CheckedCache::Args args = {value};
    if (ttl > absl::ZeroDuration()) {
      milliseconds = std::to_string(std::max<int64_t>(absl::ToInt64Milliseconds(ttl), 1));
      args.insert(args.end(), {"PX", milliseconds});
    }
    return Counted(
               DoWrite("SET", key, args, CheckedCache::Repeat::kMayRunTwice, BootNow() + timeout))
        .status();
  }

  absl::Status Delete(std::string_view key, absl::Duration timeout) override {
    return Counted(
               DoWrite("UNLINK", key, {}, CheckedCache::Repeat::kMayRunTwice, BootNow() + timeout))
        .status();
  }

  absl::StatusOr<CacheReply> Write(std::string_view command, std::string_view key,
                                   const std::vector<std::string_view>& args,
                                   absl::Duration timeout) override {
    const auto repeat =
        IsDelete(command) ? CheckedCache::Repeat::kMayRunTwice : CheckedCache::Repeat::kMustNot;
    absl::StatusOr<RedisReply> reply =
        Counted(DoWrite(command, key, args, repeat, BootNow() + timeout));
    if (!reply.ok()) return reply.status();
    return ToCacheReply(*std::move(reply));
  }

  absl::StatusOr<CacheReply> Read(std::string_view command, std::string_view key,
                                  const std::vector<std::string_view>& args,
                                  absl::Duration timeout) override {
    absl::StatusOr<ReadReply> read = Counted(cache_.Read(command, key, args, BootNow() + timeout));
    if (!read.ok()) return read.status();
    ++(read->reply.IsNil() ? counters_.misses : counters_.hits);
    return ToCacheReply(std::move(read->reply));
  }

  LoaderStats Stats() const override {
    LoaderStats stats;
    stats.hits = counters_.hits;
    stats.misses = counters_.misses;
    stats.coalesced = counters_.coalesced;
    stats.origin_fills = counters_.origin_fills;
    stats.origin_direct = counters_.origin_direct;
    stats.grace_hits = counters_.grace_hits;
    stats.fills_void = counters_.fills_void;
    stats.refused_stale = counters_.refused_stale;
    stats.refused_moved = counters_.refused_moved;
    stats.refused_fencing = counters_.refused_fencing;
    stats.refused_no_lease = counters_.refused_no_lease;
    stats.refused_behind = counters_.refused_behind;
    stats.retries = counters_.retries;
    stats.forgets_failed = counters_.forgets_failed;
    stats.errors = counters_.errors;
    return stats;
  }

 private:
  Result DoGet(std::string_view key, absl::Duration timeout) {
    const Instant start = BootNow();
    const Instant deadline = start + timeout;
    const Instant patience = options_.origin_when_unreachable ? start + timeout / 2 : deadline;
    while (true) {
      const absl::StatusOr<ReadReply> read = cache_.Read("GET", key, {}, patience);
      if (!read.ok()) {
        if (!absl::IsUnavailable(read.status()) || !options_.origin_when_unreachable) {
          return read.status();
        }
      } else if (!read->reply.IsNil()) {
        ++counters_.hits;
        return Present(read->reply.text);
      } else {
        ++counters_.misses;
      }
      std::optional<Result> result = Look(key, read.ok() ? &*read : nullptr, deadline);
      if (result) return *std::move(result);
    }
  }

  // Looks at the sources, or waits for somebody who does. `miss` is null when the owner could not
  // be asked. Nothing: the one who did gave up, and this caller still has time.
  std::optional<Result> Look(std::string_view key, const ReadReply* miss, Instant deadline) {
    const FlightTable::Ticket ticket = flights_.Join(key, MissOf(key, miss));
    if (!ticket.leader) {
      ++counters_.coalesced;
      std::optional<Result> result = ticket.flight->Wait(deadline);
      if (!result) {
        return Result(absl::DeadlineExceededError(
            fmt::format("'{}': another caller's look at the origin took longer than the timeout",
                        Printable(key))));
      }
      if (!result->ok() && IsTheLeadersOwn(result->status()) && BootNow() < deadline) {
        return std::nullopt;
      }
      return result;
    }
    // Lands also when the application's origin leaves by an exception.
    struct Landing {
      FlightTable& flights;
      std::string_view key;
      const FlightTable::Ticket& ticket;
      Result result = absl::UnknownError("the origin gave no answer");
      ~Landing() { flights.Land(key, ticket.flight, std::move(result)); }
    } landing{flights_, key, ticket};
    landing.result = LookAtSources(key, miss, ticket, deadline);
    return landing.result;
  }

  Miss MissOf(std::string_view key, const ReadReply* miss) const {
    if (miss != nullptr) {
      return {std::string(miss->at.history_tag), miss->at.version, miss->token};
    }
    const std::optional<Location> at = router_->Locate(key);
    if (!at) return {};
    return {std::string(at->history_tag), at->version, ""};
  }

  Result LookAtSources(std::string_view key, const ReadReply* miss,
                       const FlightTable::Ticket& ticket, Instant deadline) {
    if (miss != nullptr && miss->peek_allowed) {
      flights_.Begin(key, ticket.flight);
      const std::optional<CheckedCache::Peeked> peeked = cache_.Peek(*miss, key, deadline);
      if (peeked) {
        ++counters_.grace_hits;
        cache_.Fill(*miss, key, peeked->value, peeked->ttl, deadline);
        return Present(peeked->value);
      }
    }
    RETURN_IF_ERROR(WaitForBudget(deadline));
    flights_.Begin(key, ticket.flight);
    ++counters_.origin_fills;
    if (miss == nullptr) ++counters_.origin_direct;
    Result found = origin_(key, deadline - BootNow());
    if (found.ok() && miss != nullptr) Store(*miss, key, *found, deadline);
    return found;
  }

  void Store(const ReadReply& miss, std::string_view key, const std::optional<std::string>& value,
             Instant deadline) {
    if (value) {
      cache_.Fill(miss, key, *value, options_.ttl, deadline);
    } else if (options_.negative_ttl > absl::ZeroDuration()) {
      cache_.Fill(miss, key, options_.absent_marker, options_.negative_ttl, deadline);
    }
  }

  // The keyspace's budget, shared out among the clients that watch it.
  absl::Status WaitForBudget(Instant deadline) {
    const Membership::Ptr membership = router_->membership();
    const double whole = membership == nullptr ? 0 : membership->spec().origin_fill_qps;
    const Instant now = BootNow();
    std::optional<absl::Duration> wait;
    {
      const std::lock_guard<std::mutex> lock(budget_mutex_);
      budget_.SetRate(whole / std::max<uint32_t>(watch_->Watchers(), 1));
      wait = budget_.Take(now, deadline - now);
    }
    if (!wait) {
      return absl::ResourceExhaustedError(
          fmt::format("the budget of origin fills ({} a second for all clients) has no room within "
                      "the timeout; "
                      "raise origin_fill_qps or the timeout",
                      whole));
    }
    if (*wait > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(*wait));
    return absl::OkStatus();
  }

  absl::StatusOr<RedisReply> DoWrite(std::string_view command, std::string_view key,
                                     const CheckedCache::Args& args, CheckedCache::Repeat repeat,
                                     Instant deadline) {
    flights_.Detach(key);
    absl::StatusOr<RedisReply> reply = cache_.Write(command, key, args, repeat, deadline);
    flights_.Detach(key);
    if (reply.ok() && IsDelete(command)) cache_.ForgetAtPending(key, deadline);
    return reply;
  }

  std::optional<std::string> Present(const std::string& stored) const {
    if (stored == options_.absent_marker) return std::nullopt;
    return stored;
  }

  template <typename T>
  absl::StatusOr<T> Counted(absl::StatusOr<T> value) {
    if (!value.ok()) ++counters_.errors;
    return value;
  }

  const Router* const router_;
  MembershipWatch* const watch_;
  const std::unique_ptr<NodeTransport> owned_nodes_;
  const Origin origin_;
  const LoaderOptions options_;
  LoaderCounters counters_;
  CheckedCache cache_;
  FlightTable flights_;
  std::mutex budget_mutex_;
  FillBudget budget_;  // guarded by budget_mutex_
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(LoaderSeams seams, Origin origin,
                                                   LoaderOptions options) {
  if (origin == nullptr) return absl::InvalidArgumentError("origin: none given");
  if (options.absent_marker.empty()) {
    return absl::InvalidArgumentError("absent_marker: it is empty, which is a value");
  }
  for (const auto& [name, value] :
       {std::pair{"ttl", options.ttl}, std::pair{"negative_ttl", options.negative_ttl}}) {
    if (value < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: use zero or a positive time", name, absl::FormatDuration(value)));
    }
  }
  return std::make_unique<LoaderImpl>(std::move(seams), std::move(origin), std::move(options));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(Client* client, Origin origin,
                                                       LoaderOptions options) {
  if (client == nullptr) return absl::InvalidArgumentError("client: none given");
  Client::Core& core = client->core();
  LoaderSeams seams;
  seams.router = core.router.get();
  seams.watch = core.watch.get();
  seams.owned_nodes = std::make_unique<PooledNodes>(&core.pool);
  return MakeLoader(std::move(seams), std::move(origin), std::move(options));
}

}  // namespace warmring
