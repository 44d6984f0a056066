#include "client/sync/membership_watch.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "client/base/event_queue.h"
#include "client/base/warning.h"
#include "client/sync/last_known_good.h"
#include "client/sync/membership_watch_driver.h"
#include "client/sync/watch_stream.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

// A snapshot piece is up to 1 MiB.
constexpr size_t kMaxQueuedEvents = 16;
constexpr absl::Duration kSaveEvery = absl::Seconds(1);

struct Connected {};
struct Ended {
  absl::Status why;
};
struct Event {
  uint64_t stream = 0;  // events of an abandoned stream are dropped
  std::variant<Connected, WatchMessage, Ended> what;
};

// One thread decides and writes; one thread for each stream connects and reads.
class WatchDriver final : public MembershipWatch {
 public:
  WatchDriver(MembershipWatchOptions options, Listener listener, WatchSeams seams,
              Membership::Ptr last_known_good)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        transport_(std::move(seams.transport)),
        cache_(options_.cache_file),
        events_(kMaxQueuedEvents),
        machine_({.keyspace = options_.keyspace,
                  .backoff_min = options_.backoff_min,
                  .backoff_max = options_.backoff_max,
                  .idle_timeout = options_.idle_timeout,
                  .seed = seams.seed,
                  .decode = std::move(seams.decode)},
                 std::move(last_known_good)) {
    if (machine_.current() != nullptr) Publish(machine_.current());
    unsaved_ = false;
    thread_ = std::thread([this] { Run(); });
  }

  ~WatchDriver() override {
    events_.Close();
    std::shared_ptr<WatchStream> stream;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stream = stream_;
    }
    if (stream != nullptr) stream->Cancel();
    thread_.join();
  }

  Membership::Ptr Current() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return current_;
  }

  absl::Status WaitForVersion(Version version, absl::Duration timeout) override {
    const Instant deadline = BootNow() + timeout;
    std::unique_lock<std::mutex> lock(mutex_);
    while (current_ == nullptr || current_->version() < version) {
      const absl::Duration left = deadline - BootNow();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(
            fmt::format("keyspace {}: waited {} for version {}; here is version {}; "
                        "connection: {}",
                        options_.keyspace, absl::FormatDuration(timeout), version.value,
                        current_ == nullptr ? 0 : current_->version().value,
                        status_.ok() ? "connected" : status_.ToString()));
      }
      changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Minutes(1))));
    }
    return absl::OkStatus();
  }

  absl::Duration Staleness() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fresh_at_ ? BootNow() - *fresh_at_ : absl::InfiniteDuration();
  }

  uint32_t Watchers() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return watchers_;
  }

  absl::Status ConnectionStatus() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  void Run() {
    Do(machine_.Start(BootNow()));
    while (!events_.closed()) {
      const std::unique_ptr<Event> event = events_.PopUntil(wake_at_, BootNow);
      if (event != nullptr) {
        if (event->stream == stream_number_ && reader_.joinable()) Do(Tell(*event));
      } else {
        Do(machine_.OnTimer(BootNow()));
      }
      SaveIfDue();
    }
    CloseStream();
  }

  MembershipSyncMachine::Step Tell(const Event& event) {
    const Instant now = BootNow();
    if (std::holds_alternative<Connected>(event.what)) return machine_.OnConnected(now);
    if (const auto* message = std::get_if<WatchMessage>(&event.what)) {
      return machine_.OnMessage(now, *message);
    }
    JoinReader();
    return machine_.OnDisconnected(now, std::get<Ended>(event.what).why);
  }

  void Do(const MembershipSyncMachine::Step& step) {
    wake_at_ = step.wake_at;
    for (const auto& action : step.actions) {
      if (const auto* connect = std::get_if<MembershipSyncMachine::Connect>(&action)) {
        OpenStream(options_.endpoints[connect->turn % options_.endpoints.size()]);
      } else if (const auto* send = std::get_if<MembershipSyncMachine::Send>(&action)) {
        // A stream that takes no more is about to say why it ended.
        stream_->Write(send->request);
      } else if (const auto* install = std::get_if<MembershipSyncMachine::Install>(&action)) {
        Publish(install->membership);
      } else {
        CloseStream();
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    TakeState();
  }

  // REQUIRES: mutex_ is held.
  void TakeState() {
    fresh_at_ = machine_.fresh_at();
    watchers_ = machine_.watchers();
    status_ = machine_.status();
  }

  // The listener first: who has waited for a version finds it there too.
  void Publish(const Membership::Ptr& membership) {
    if (listener_ != nullptr) listener_(membership);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      current_ = membership;
      TakeState();
    }
    changed_.notify_all();
    unsaved_ = true;
  }

  // Memberships may follow each other quickly; the file needs only the last of
  // a burst.
  void SaveIfDue() {
    if (!unsaved_ || options_.cache_file.empty()) return;
    const Instant now = BootNow();
    if (!events_.empty() && now - saved_at_ < kSaveEvery) return;
    saved_at_ = now;
    unsaved_ = false;
    const absl::Status saved = cache_.Write(*machine_.current());
    if (!saved.ok() && saved != save_trouble_) Warn(saved.ToString());
    save_trouble_ = saved;
  }

  void OpenStream(const std::string& endpoint) {
    std::shared_ptr<WatchStream> stream = transport_->Open(endpoint);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stream_ = stream;
    }
    // The destructor may have closed the events before it could see this
    // stream.
    if (events_.closed()) stream->Cancel();
    reader_ = std::thread([this, stream, number = ++stream_number_] { Read(*stream, number); });
  }

  void Read(WatchStream& stream, uint64_t number) {
    if (stream.Start()) {
      events_.Push({number, Connected{}});
      while (std::optional<WatchMessage> message = stream.Read()) {
        events_.Push({number, *std::move(message)});
      }
    }
    events_.Push({number, Ended{stream.Finish()}});
  }

  void CloseStream() {
    if (!reader_.joinable()) return;
    stream_->Cancel();
    // The reader may be waiting for room.
    while (const std::unique_ptr<Event> event = events_.PopUntil(Instant::Never(), BootNow)) {
      if (std::holds_alternative<Ended>(event->what)) break;
    }
    JoinReader();
  }

  void JoinReader() {
    reader_.join();
    const std::lock_guard<std::mutex> lock(mutex_);
    stream_.reset();
  }

  const MembershipWatchOptions options_;
  const Listener listener_;
  const std::unique_ptr<WatchTransport> transport_;
  const LastKnownGood cache_;
  EventQueue<Event> events_;

  // Of the deciding thread.
  MembershipSyncMachine machine_;
  Instant wake_at_;
  uint64_t stream_number_ = 0;
  std::thread reader_;
  bool unsaved_ = false;
  Instant saved_at_;
  absl::Status save_trouble_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<WatchStream> stream_;  // guarded by mutex_; set by the deciding thread only
  Membership::Ptr current_;              // guarded by mutex_, like the rest
  std::optional<Instant> fresh_at_;
  uint32_t watchers_ = 1;
  absl::Status status_ = absl::UnavailableError("not connected yet");

  std::thread thread_;
};

absl::Status Validate(const MembershipWatchOptions& options) {
  RETURN_IF_ERROR(ValidateId("keyspace", options.keyspace));
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
  return absl::OkStatus();
}

absl::StatusOr<Membership::Ptr> ReadCache(const MembershipWatchOptions& options) {
  if (options.cache_file.empty()) return nullptr;
  absl::StatusOr<Membership::Ptr> cached = LastKnownGood(options.cache_file).Read(options.keyspace);
  if (cached.ok()) return cached;
  if (absl::IsFailedPrecondition(cached.status())) {
    return absl::InvalidArgumentError(std::string(cached.status().message()));
  }
  if (!absl::IsNotFound(cached.status())) {
    Warn(fmt::format("cache file {} is ignored: {}", options.cache_file,
                     cached.status().ToString()));
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MembershipWatch>> StartWatch(MembershipWatchOptions options,
                                                            MembershipWatch::Listener listener,
                                                            WatchSeams seams) {
  RETURN_IF_ERROR(Validate(options));
  ASSIGN_OR_RETURN(Membership::Ptr cached, ReadCache(options));
  return std::make_unique<WatchDriver>(std::move(options), std::move(listener), std::move(seams),
                                       std::move(cached));
}

absl::StatusOr<std::unique_ptr<MembershipWatch>> MembershipWatch::Start(
    MembershipWatchOptions options, Listener listener) {
  WatchSeams seams;
  seams.transport = MakeGrpcWatchTransport({.keyspace = options.keyspace,
                                            .client_name = options.client_name,
                                            .observer = options.observer});
  seams.decode = ProtoSnapshotDecoder();
  seams.seed = RandomSeed();
  return StartWatch(std::move(options), std::move(listener), std::move(seams));
}

}  // namespace warmring
