#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/ownership/owner_view.h"
#include "warmring/status.h"

namespace warmring {

// What an owner said to a request. Admitted: no reason.
struct Answer {
  std::optional<RefusalInfo> refusal;
  bool malformed = false;  // the epoch word is none
  friend bool operator==(const Answer&, const Answer&) = default;
};

// An owner as its coordinator and its clients see it, whatever it is made of: a Redis with the
// module, or OwnerGuard. Node "a" of the keyspace "cache". Thread rule: one thread.
class TestedOwner {
 public:
  virtual ~TestedOwner() = default;

  virtual void Attach(const HistoryId& history) = 0;
  // Offers a membership, which the owner need not take. version(): the one that it has; 0: none.
  virtual void Offer(const Membership::Ptr& membership) = 0;
  virtual Version version() = 0;

  virtual uint64_t Renew() = 0;
  virtual absl::Status Grant(const LeaseGrant& grant) = 0;
  // Until the lease that was granted for `ttl` is over.
  virtual void Outlive(absl::Duration ttl) = 0;

  // The floor holds when this returns, if the owner knows the planes of the ranges.
  virtual void Fence(const HashRangeSet& ranges, Epoch epoch) = 0;
  // Whether the newest Fence is acknowledged now.
  virtual bool Acknowledged() = 0;

  virtual Answer Write(const std::string& key, const std::string& word) = 0;
  virtual Answer Read(const std::string& key, const std::string& word) = 0;

  // A write that has begun. Finish says whether it may be acknowledged, and ends it.
  class Held {
   public:
    virtual ~Held() = default;
    virtual bool Finish() = 0;
  };
  // Null: here a write is over when it has been admitted, as on Redis, whose commands are atomic.
  virtual std::unique_ptr<Held> Begin(const std::string& key, const std::string& word) = 0;

  // Ends it and starts it again, with nothing but what it keeps on disk.
  virtual void Restart() = 0;
};

using MakeTestedOwner = std::function<std::unique_ptr<TestedOwner>()>;
std::unique_ptr<TestedOwner> MakeGuardOwner();
std::unique_ptr<TestedOwner> MakeRedisOwner();

}  // namespace warmring
