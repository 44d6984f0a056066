#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/engine/cache_engine.h"
#include "agent/notice.h"
#include "agent/rate_limiter.h"
#include "client/base/boot_clock.h"
#include "core/membership/membership.h"

namespace warmring {

struct ReleaserOptions {
  NodeId node;
  uint64_t purge_keys_per_second = 50'000;
  absl::Duration forward_period = absl::Milliseconds(100);
  // How long after the last change of the membership deletes are still looked for.
  absl::Duration forward_after = absl::Seconds(10);
  InstantClock clock = BootNow;
};

// Lets go of what is not this node's any more: deletes the keys that the newest membership does not
// entitle it to (all of them when it is not a member), and forwards deletes that came to this node
// after their range had left to the present owner. Owns a thread. Thread-safe.
class Releaser {
 public:
  Releaser(ReleaserOptions options, CacheEngine* engine);
  ~Releaser();

  // The engine has installed it.
  void OnInstalled(const Membership::Ptr& membership);

 private:
  void Run();
  absl::Status PurgeStep();
  absl::Status ForwardStep();
  absl::Status Forward(std::vector<std::string> keys);
  absl::Status KeepUnlessSettled(std::vector<std::string> keys);
  HashRangeSet EntitledRanges(const Membership& membership) const;
  absl::Duration Delay();

  const ReleaserOptions options_;
  CacheEngine* const engine_;
  Notice notice_;

  // Of the thread.
  RateLimiter pace_;
  bool purging_ = false;
  uint64_t purge_cursor_ = 0;
  uint64_t purged_ = 0;
  uint64_t forget_cursor_ = 0;
  std::vector<std::string> unsent_;  // deletes whose owner could not be reached or is not known yet
  bool forget_more_ = false;
  Membership::Ptr membership_;

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  Membership::Ptr installed_;
  bool known_ = false;  // entitled_ is of an earlier membership
  HashRangeSet entitled_;
  bool purge_again_ = false;
  Instant changed_at_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace warmring
