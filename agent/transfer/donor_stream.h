#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/engine/cache_engine.h"
#include "agent/rate_limiter.h"
#include "agent/transfer/pull.h"
#include "client/base/boot_clock.h"
#include "core/membership/membership.h"

namespace warmring {

// The rate limits of one donor, shared by all its streams. Thread-safe.
class DonorPace {
 public:
  explicit DonorPace(InstantClock clock) : clock_(std::move(clock)) {}

  // The limits of the newest order hold for all: one migration runs at a time.
  void SetLimits(const TransferLimits& limits);
  absl::Duration Wait();
  void Charge(uint64_t keys, uint64_t bytes);
  uint32_t ReadSize(uint32_t max) const;

 private:
  const InstantClock clock_;
  mutable std::mutex mutex_;
  RateLimiter limiter_;  // guarded by mutex_
};

struct DonorStreamOptions {
  size_t max_batch_keys = 512;
  size_t max_batch_bytes = 1 << 20;
  // A larger key cannot travel in one message.
  size_t max_entry_bytes = 60 << 20;
  // Between looks at the change log: while changes flow or a wave is fencing, and else.
  absl::Duration poll_min = absl::Milliseconds(5);
  absl::Duration poll_max = absl::Milliseconds(50);
  InstantClock clock = BootNow;
};

// What a donor knows about itself when a stream begins.
struct DonorFacts {
  double owned_share = 1;  // part of hash space that it owns; for the estimate of keys
  Membership::Ptr membership;
  LogPosition fence;  // kDirty: where its log stood when it was fenced
};

// What a donor does for one recipient: scans the ranges once and sends, in between and afterwards,
// every change, all on one ordered stream. Changes never wait for the pace of the scan. Holds at
// most a batch and a page of key names in memory.
//
// The order that makes a copy exact: the engine logs changes *before* the scan begins; a value is
// dumped after its key was read from scan or log, and sent in the order of the dumps; a LogPosition
// is sent after the values of all changes before it.
//
// Run blocks a thread of its own; the other calls come from any thread.
class DonorStream {
 public:
  // `engine`, `pace` and `sink` must outlive the stream.
  DonorStream(DonorStreamOptions options, PullOrder order, DonorFacts facts, CacheEngine* engine,
              DonorPace* pace, PullSink* sink);

  // Until the stream is over, Stop is called, or (kDirty) all is sent. Errors: those of the engine;
  // ResourceExhausted naming a key that is too large.
  absl::Status Run();

  // The recipient has applied all changes up to here.
  void Acknowledge(uint64_t position);
  void Verify(VerifyRequest request);
  // Looks at the change log now: a fence was raised.
  void Nudge();
  void Stop();

 private:
  enum class Flow : uint8_t { kGoOn, kOver };

  absl::Status RunCopy();
  absl::Status RunDirty();
  // One look at the log; `changed` collects the keys seen, if given.
  absl::StatusOr<Flow> PumpChanges(std::set<std::string>* changed);
  absl::StatusOr<Flow> PumpChangesIfDue();
  absl::StatusOr<Flow> ScanStep();
  absl::StatusOr<Flow> AnswerVerify(const VerifyRequest& request);
  absl::StatusOr<Flow> SendDigests(std::vector<std::string> keys);
  absl::StatusOr<std::vector<std::string>> SampleKeys(uint32_t sample);
  absl::StatusOr<Flow> SendKeys(const std::vector<std::string>& keys, bool scan);
  Flow Send(PullItem item);
  Flow SendCursor();
  uint64_t EstimateKeys();
  uint64_t Acknowledged();
  bool Stopped();
  bool TakeVerify(VerifyRequest* request);
  void WaitForWork(absl::Duration pace_wait);

  const DonorStreamOptions options_;
  const PullOrder order_;
  const DonorFacts facts_;
  CacheEngine* const engine_;
  DonorPace* const pace_;
  PullSink* const sink_;
  const Id128 track_;  // names this stream in the engine's log

  // Of the Run thread.
  LogPosition cursor_;
  bool cursor_sent_ = false;
  Instant polled_at_;
  Instant active_until_;  // polls are short until then
  absl::Duration poll_ = absl::ZeroDuration();
  uint64_t scan_cursor_ = 0;
  bool walk_done_ = false;
  bool scan_done_ = false;
  std::deque<std::string> found_;  // by the scan, not sent yet
  uint64_t scanned_ = 0;
  uint64_t keys_total_ = 0;
  double mean_bytes_ = 64 << 10;  // of an entry, for the size of the next dump
  uint64_t random_;

  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_.
  bool stopped_ = false;
  bool nudged_ = false;
  uint64_t acknowledged_ = 0;
  std::deque<VerifyRequest> verifies_;
};

}  // namespace warmring
