#include "client/owner/owner_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "client/base/backoff.h"
#include "client/base/boot_clock.h"
#include "client/base/event_queue.h"
#include "client/owner/owner_session_driver.h"
#include "client/owner/session_stream.h"
#include "core/base/mutant.h"
#include "core/base/status_macros.h"
#include "core/membership/node.h"

namespace warmring {
namespace {

constexpr size_t kMaxQueuedEvents = 64;
// The server may have to persist the session first.
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(15);

// What the reading thread tells.
struct Event {
  enum class Kind : uint8_t { kConnected, kResponse, kEnded };
  Kind kind = Kind::kConnected;
  SessionResponse response;  // kResponse
  absl::Status why;          // kEnded
};

// One thread talks to the port, decides and writes; one for each stream reads.
class SessionDriver final : public OwnerSession {
 public:
  SessionDriver(OwnerSessionOptions options, OwnerPort* port, SessionSeams seams)
      : options_(std::move(options)),
        port_(port),
        transport_(std::move(seams.transport)),
        backoff_(options_.backoff_min, options_.backoff_max, seams.seed),
        turn_(seams.seed % options_.endpoints.size()),
        events_(kMaxQueuedEvents) {
    thread_ = std::thread([this] { Run(); });
  }

  ~SessionDriver() override {
    events_.Close();
    std::shared_ptr<SessionStream> stream;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stream = stream_;
    }
    if (stream != nullptr) stream->Cancel();
    thread_.join();
  }

  void Notify() override {
    notified_ = true;
    events_.Wake();
  }

  bool Connected() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return connected_;
  }

  absl::Status LastStatus() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  void Run() {
    while (!events_.closed()) {
      const absl::Status why = RunStream(options_.endpoints[turn_++ % options_.endpoints.size()]);
      SetState(false, why);
      // An owner that served and was restarted should be back at once: the server is fine.
      const bool at_once = absl::IsAborted(why) && present_.granted;
      const Instant again = BootNow() + (at_once ? absl::ZeroDuration() : backoff_.Next());
      while (!events_.closed() && BootNow() < again) events_.PopUntil(again, BootNow);
    }
  }

  // One stream from its opening to its end; returns why it ended.
  absl::Status RunStream(const std::string& endpoint) {
    const std::shared_ptr<SessionStream> stream = transport_->Open(endpoint);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stream_ = stream;
    }
    // The destructor may have closed the events before it could see this stream.
    if (events_.closed()) stream->Cancel();
    present_ = Present{};
    ASSIGN_OR_RETURN(const ServedKeyspace served, stream->Discover());
    ASSIGN_OR_RETURN(const OwnerPort::Identity identity,
                     port_->Attach(served.history, served.on_restart));
    present_.identity = identity;
    present_.history = served.history;
    present_.give_up_at = BootNow() + kWelcomeTimeout;
    if (served.history != term_history_) {
      term_history_ = served.history;
      highest_term_ = Term(0);
    }
    std::thread reader([this, stream] { Read(*stream); });
    bool ended = false;
    const absl::Status why = Serve(*stream, ended);
    stream->Cancel();
    // The reader may be waiting for room.
    while (!ended && !events_.closed()) {
      const std::unique_ptr<Event> event = events_.PopUntil(Instant::Never(), BootNow);
      ended = event != nullptr && event->kind == Event::Kind::kEnded;
    }
    reader.join();
    const std::lock_guard<std::mutex> lock(mutex_);
    stream_.reset();
    return why;
  }

  void Read(SessionStream& stream) {
    if (stream.Start()) {
      events_.Push({Event::Kind::kConnected, {}, {}});
      while (std::optional<SessionResponse> response = stream.Read()) {
        events_.Push({Event::Kind::kResponse, *std::move(response), {}});
      }
    }
    events_.Push({Event::Kind::kEnded, {}, stream.Finish()});
  }

  absl::Status Serve(SessionStream& stream, bool& ended) {
    while (!events_.closed()) {
      const Instant wake_at = std::min(present_.renew_at, present_.give_up_at);
      const std::unique_ptr<Event> event = events_.PopUntil(wake_at, BootNow);
      if (event != nullptr) {
        if (event->kind == Event::Kind::kEnded) {
          ended = true;
          return event->why.ok() ? absl::UnavailableError("the server ended the session")
                                 : event->why;
        }
        RETURN_IF_ERROR(Handle(*event, stream));
      }
      const Instant now = BootNow();
      if (now >= present_.give_up_at) {
        return absl::UnavailableError(present_.welcomed ? "the server granted nothing for a lease"
                                                        : "the server did not answer the hello");
      }
      if (now >= present_.renew_at) RETURN_IF_ERROR(Renew(now, stream));
      if (present_.welcomed && notified_.exchange(false)) SendReports(stream);
    }
    return absl::CancelledError("the session is being ended");
  }

  absl::Status Handle(const Event& event, SessionStream& stream) {
    if (event.kind == Event::Kind::kConnected) {
      stream.Write(present_.identity);
      return absl::OkStatus();
    }
    const SessionResponse& response = event.response;
    if (const auto* welcome = std::get_if<SessionWelcome>(&response)) return OnWelcome(*welcome);
    if (const auto* grant = std::get_if<LeaseGrant>(&response)) return OnGrant(*grant);
    if (const auto* tasks = std::get_if<SessionTasks>(&response)) {
      if (TermIsPresent(tasks->term)) port_->SetTasks(tasks->tasks);
      return absl::OkStatus();
    }
    return std::get<SessionGarbage>(response).why;
  }

  absl::Status OnWelcome(const SessionWelcome& welcome) {
    if (welcome.history != present_.history) {
      return absl::AbortedError("the server's history changed while the session was opened");
    }
    if (!TermIsPresent(welcome.term)) {
      return absl::UnavailableError("the server leads no more: its term is an old one");
    }
    const Instant now = BootNow();
    present_.welcomed = true;
    present_.lease = welcome.lease;
    present_.renew_at = now;
    // Before the first grant the server may have to wait until nobody believes in the lease of
    // another incarnation any more, which is somewhat longer than a lease.
    present_.give_up_at = now + 2 * welcome.lease + absl::Seconds(1);
    notified_ = true;
    SetState(true, absl::OkStatus());
    return absl::OkStatus();
  }

  absl::Status OnGrant(const LeaseGrant& grant) {
    if (!TermIsPresent(grant.term)) return absl::OkStatus();
    const absl::Status granted = port_->Grant(grant);
    if (absl::IsAborted(granted)) return granted;
    // Its floors hold whatever the owner says of the lease; the next renewal brings another.
    SetState(true, granted);
    backoff_.Reset();
    present_.granted = true;
    present_.give_up_at = BootNow() + std::max(present_.lease, absl::Milliseconds(100));
    if (grant.seq == present_.seq) present_.renewed_at.reset();
    return absl::OkStatus();
  }

  absl::Status Renew(Instant now, SessionStream& stream) {
    const absl::Duration period = present_.lease / 4;
    present_.renew_at = now + period;
    // A newer renewal voids the one before, so an answer that is on its way is waited for, but not
    // for ever: the server drops renewals that it may not grant yet.
    if (present_.renewed_at && now < *present_.renewed_at + 2 * period) return absl::OkStatus();
    const absl::StatusOr<OwnerPort::Renewal> renewal = port_->Renew();
    if (absl::IsAborted(renewal.status())) return renewal.status();
    if (!renewal.ok()) {
      present_.renew_at = now + period / 4;
      SetState(true, renewal.status());
      return absl::OkStatus();
    }
    present_.seq = renewal->seq;
    present_.renewed_at = now;
    stream.Write(*renewal);
    return absl::OkStatus();
  }

  void SendReports(SessionStream& stream) {
    for (const TaskReport& report : port_->TakeReports()) stream.Write(report);
  }

  // Words of a leader that was deposed are not followed.
  bool TermIsPresent(Term term) {
    if (term < highest_term_ && !IsMutant(Mutant::kK)) return false;
    highest_term_ = term;
    return true;
  }

  void SetState(bool connected, absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    connected_ = connected;
    status_ = std::move(status);
  }

  // Of the stream that is open.
  struct Present {
    OwnerPort::Identity identity;
    HistoryId history;
    bool welcomed = false;
    bool granted = false;
    absl::Duration lease;
    uint64_t seq = 0;
    std::optional<Instant> renewed_at;  // of the renewal that is not answered
    Instant renew_at = Instant::Never();
    Instant give_up_at = Instant::Never();
  };

  const OwnerSessionOptions options_;
  OwnerPort* const port_;
  const std::unique_ptr<SessionTransport> transport_;

  // Of the deciding thread.
  Backoff backoff_;
  uint64_t turn_;
  Present present_;
  HistoryId term_history_;
  Term highest_term_;

  EventQueue<Event> events_;
  std::atomic<bool> notified_ = false;

  mutable std::mutex mutex_;
  std::shared_ptr<SessionStream> stream_;  // guarded by mutex_, like the rest
  bool connected_ = false;
  absl::Status status_ = absl::UnavailableError("not connected yet");

  std::thread thread_;
};

absl::Status Validate(const OwnerSessionOptions& options, const OwnerPort* port) {
  RETURN_IF_ERROR(ValidateId("keyspace", options.keyspace));
  RETURN_IF_ERROR(ValidateId("node", options.node));
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError("endpoints: none given: name a server as host:port");
  }
  for (const std::string& endpoint : options.endpoints) {
    RETURN_IF_ERROR(ValidateAddress("endpoints", endpoint));
  }
  if (options.backoff_min <= absl::ZeroDuration() || options.backoff_max < options.backoff_min) {
    return absl::InvalidArgumentError(fmt::format(
        "backoff_min: {}: use a positive time not above backoff_max ({})",
        absl::FormatDuration(options.backoff_min), absl::FormatDuration(options.backoff_max)));
  }
  if (port == nullptr) return absl::InvalidArgumentError("port: none given");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnerSession>> StartSession(OwnerSessionOptions options,
                                                           OwnerPort* port, SessionSeams seams) {
  RETURN_IF_ERROR(Validate(options, port));
  return std::make_unique<SessionDriver>(std::move(options), port, std::move(seams));
}

absl::StatusOr<std::unique_ptr<OwnerSession>> OwnerSession::Start(OwnerSessionOptions options,
                                                                  OwnerPort* port) {
  SessionSeams seams;
  seams.transport = MakeGrpcSessionTransport(options.keyspace, options.node);
  seams.seed = RandomSeed();
  return StartSession(std::move(options), port, std::move(seams));
}

}  // namespace warmring
