#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/engine/cache_engine.h"
#include "agent/notice.h"
#include "agent/transfer/pull.h"
#include "client/base/boot_clock.h"
#include "core/membership/membership.h"
#include "migrations/task.h"

namespace warmring {

// What every transfer of an agent uses.
struct TransferContext {
  KeyspaceId keyspace;
  NodeId node;
  CacheEngine* engine = nullptr;
  PullDialer dial;
  // The membership that is installed in the engine, or null.
  std::function<Membership::Ptr()> membership;
  absl::Duration retry_min = absl::Milliseconds(50);
  absl::Duration retry_max = absl::Seconds(2);
  absl::Duration report_period = absl::Milliseconds(200);
  InstantClock clock = BootNow;
};

// Fills this node from its donors: one attempt after the other per source, each purging what may
// be left of earlier ones before it pulls (a key that was deleted at the donor between two attempts
// is in neither scan nor log). Every attempt has a nonce of its own in the engine, so that nothing
// late of an old one lands.
//
// Owns a thread per source. Thread-safe; no call waits for an engine or a donor except Exclude,
// Join and the destructor.
class TransferClient {
 public:
  // `changed` is called, from the client's threads and without its lock, when a position has
  // advanced, and with `report` when a report is due.
  TransferClient(TransferContext context, MigrationId migration, Id128 nonce,
                 std::function<void(bool report)> changed);
  ~TransferClient();  // abandons and waits

  // Sources and limits as they are now: addresses come and go, ranges only shrink.
  void SetTask(const WarmTask& task);
  // Compare so many keys of each source, once each has caught up.
  void Verify(uint32_t sample);
  // The installed membership is another one.
  void MembershipChanged();

  // kPrepared: everything up to the donors' watermarks is applied. Fills the report, and from now
  // on leaves those ranges alone (no purge, no new attempt): whoever got the report may commit on
  // it. What was reported once is reported again, also when the streams have ended meanwhile.
  // kTooLate: the donors have logged more in ranges that are left alone already, and no stream
  // brings it any more: this hand-over cannot succeed.
  enum class Preparedness : uint8_t { kNotYet, kPrepared, kTooLate };
  Preparedness TryPrepare(const PrepareTask& task, PreparedReport* report);
  // Leaves `ranges` alone from now on; on return nothing of this transfer is applied to them.
  void Exclude(const HashRangeSet& ranges);

  // Ends it. It goes on, though, until the engine has closed what it opened, so that nothing late
  // can land in a transfer that comes after it.
  void Cancel();
  // Cancels without that care: for a process that ends, whose successor the engine tells apart.
  void Abandon();
  // Waits for the end. REQUIRES: Cancel or Abandon was called; SetTask is not called any more.
  void Join();

  WarmReport Warm() const;
  // Empty unless Verify was called.
  std::optional<VerifyReport> Verified() const;
  // Nothing more will come of this transfer.
  std::optional<TaskFailure> Failure() const;

 private:
  struct Source {
    explicit Source(NodeId id) : donor(std::move(id)), notice("transfer from " + donor) {}
    const NodeId donor;
    Notice notice;
    std::thread thread;
    // All guarded by TransferClient::mutex_.
    TransferSource wanted;
    std::string log_id;    // of the donor, once it was heard
    HashRangeSet ranges;   // of the present attempt
    bool running = false;  // an attempt is under way
    bool restart = false;  // end the attempt and begin another
    bool purged = false;
    bool scan_done = false;
    bool caught_up = false;
    bool idle = false;  // no ranges are left for it
    uint64_t applied = 0;
    uint64_t acknowledged = 0;
    Instant acknowledged_at;
    uint64_t keys = 0;
    uint64_t bytes = 0;
    uint64_t keys_total = 0;
    // What the last promise was made on: the donor's log, up to where, for which ranges.
    std::string promised_log_id;
    uint64_t promised = 0;
    HashRangeSet promised_ranges;
    std::shared_ptr<PullChannel> channel;
    bool verify_sent = false;
    bool verified = false;
    uint64_t compared = 0;
    uint64_t mismatched = 0;
    std::vector<std::string> suspects;  // keys that differed at the first look
    bool second_look = false;
  };

  enum class Next : uint8_t { kAttempt, kOver };

  void RunSource(Source* source);
  // Waits until there is something to pull from somewhere.
  Next NextAttempt(Source* source, PullOrder* order, std::string* address);
  // REQUIRES (the next two): mutex_ is held.
  HashRangeSet Wanted(Source* source) const;
  bool Over() const { return cancelled_ || failure_.has_value(); }

  absl::Status Attempt(Source* source, const Id128& nonce, const PullOrder& order,
                       const std::string& address);
  absl::Status PurgeRanges(Source* source, const Id128& nonce);
  // Until the stream is over (`ended`), an error, or MustStop.
  absl::Status Pull(Source* source, const Id128& nonce, PullChannel* channel, bool* ended);
  absl::Status TakeBatch(Source* source, const Id128& nonce, const EntryBatch& batch);
  absl::Status TakePosition(Source* source, PullChannel* channel, const LogPosition& position);
  absl::Status TakeDigests(Source* source, PullChannel* channel, const DigestBatch& batch);
  void AskVerify(Source* source, PullChannel* channel);
  // Decides what an ended attempt means. The delay before the next one.
  absl::Duration Judge(Source* source, const absl::Status& ended, absl::Duration last_delay);
  bool MustStop(Source* source);
  void Report(bool now);

  const TransferContext context_;
  const MigrationId migration_;
  const Id128 nonce_;
  const std::function<void(bool report)> changed_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::map<NodeId, std::unique_ptr<Source>> sources_;
  TransferLimits limits_;
  HashRangeSet excluded_;
  std::optional<uint32_t> verify_sample_;
  std::optional<TaskFailure> failure_;
  bool cancelled_ = false;
  bool abandoned_ = false;
  Instant reported_at_;
};

}  // namespace warmring
