#include "agent/transfer/transfer_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "agent/transfer/pull_wire.h"
#include "agent/transfer/transfer_client.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "proto/wire/status.h"
#include "spdlog/spdlog.h"
#include "warmring/v1/transfer_service.grpc.pb.h"

namespace warmring {
namespace {

class PullReactor;

// The streams that are open. Thread-safe.
class Streams {
 public:
  void Add(PullReactor* stream);
  void Remove(PullReactor* stream);
  void Nudge();
  void StopAll();
  void WaitUntilNone();

 private:
  std::mutex mutex_;
  std::condition_variable gone_;
  std::set<PullReactor*> streams_;  // guarded by mutex_
};

// Whether and how this node can serve an order.
class OrderCheck {
 public:
  explicit OrderCheck(const TransferServerOptions& options) : options_(options) {}
  absl::StatusOr<DonorFacts> operator()(const PullOrder& order) const;

 private:
  const TransferServerOptions& options_;
};

absl::StatusOr<DonorFacts> OrderCheck::operator()(const PullOrder& order) const {
  if (order.keyspace != options_.keyspace) {
    return absl::InvalidArgumentError(fmt::format(
        "start.keyspace: this agent serves '{}', not '{}'", options_.keyspace, order.keyspace));
  }
  const Membership::Ptr membership = options_.membership();
  if (membership == nullptr || membership->history() != order.history) {
    return absl::FailedPreconditionError(fmt::format("{} has no membership of history {} yet",
                                                     options_.node, order.history.ToString()));
  }
  const bool copy = order.mode == PullMode::kCopy;
  const HashRangeSet moving = copy ? MovingRanges(*membership, order.migration, MovePhase::kWarming,
                                                  options_.node, order.recipient)
                                   : MovingRanges(*membership, order.migration, MovePhase::kGrace,
                                                  order.recipient, options_.node);
  if (!moving.Includes(order.ranges)) {
    return absl::FailedPreconditionError(
        fmt::format("version {} at {} does not move these ranges to {}",
                    membership->version().value, options_.node, order.recipient));
  }
  DonorFacts facts;
  facts.owned_share = membership->OwnedBy(options_.node).Share();
  facts.hash = membership->spec().hash;
  if (!copy) {
    const std::optional<LogPosition> fence = options_.fenced(order.migration, order.ranges);
    if (!fence.has_value()) {
      return absl::FailedPreconditionError(
          fmt::format("{} has not fenced these ranges yet", options_.node));
    }
    facts.fence = *fence;
  }
  return facts;
}

// One stream. Reads and write completions come on gRPC's threads and only take notes; the work is
// done on a thread of its own, which is also the one that writes and finishes.
class PullReactor : public grpc::ServerBidiReactor<v1::PullRequest, v1::PullResponse>,
                    public PullSink {
 public:
  PullReactor(const TransferServerOptions& options, CacheEngine* engine, DonorPace* pace,
              Streams* streams)
      : options_(options), engine_(engine), pace_(pace), streams_(streams) {
    streams_->Add(this);
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    DonorStream* const donor = Donor();
    if (!ok && donor == nullptr) {
      Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the stream ended before its start"));
      return;
    }
    if (!ok) {
      donor->Stop();
      return;
    }
    if (donor == nullptr) {
      const absl::Status begun = Begin();
      if (!begun.ok()) {
        Finish(wire::ToGrpcStatus(begun));
        return;
      }
    } else if (request_.has_acknowledge()) {
      donor->Acknowledge(request_.acknowledge().position());
    } else if (request_.has_verify()) {
      donor->Verify(VerifyRequestFromProto(request_.verify()));
    }
    StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    over_ = over_ || !ok;
    written_.notify_all();
  }

  void OnCancel() override { StopNow(); }

  void OnDone() override {
    if (thread_.joinable()) thread_.join();  // it has called Finish and is on its way out
    streams_->Remove(this);
    { std::lock_guard<std::mutex> lock(mutex_); }
    delete this;
  }

  bool Send(PullItem item) override {
    v1::PullResponse response = PullItemToProto(std::move(item));
    std::unique_lock<std::mutex> lock(mutex_);
    if (over_) return false;
    response_ = std::move(response);
    writing_ = true;
    lock.unlock();
    StartWrite(&response_);
    lock.lock();
    written_.wait(lock, [this] { return !writing_; });
    return !over_;
  }

  void Nudge() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (donor_) donor_->Nudge();
  }

  void StopNow() {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    if (donor_) donor_->Stop();
  }

 private:
  DonorStream* Donor() {
    std::lock_guard<std::mutex> lock(mutex_);
    return donor_.get();
  }

  absl::Status Begin() {
    if (!request_.has_start()) {
      return absl::InvalidArgumentError("start: the first message of a stream must have it");
    }
    ASSIGN_OR_RETURN(PullOrder order, PullOrderFromProto(request_.start()));
    ASSIGN_OR_RETURN(DonorFacts facts, OrderCheck(options_)(order));
    spdlog::info("transfer to {} begins: migration {}, {:.2f}% of the space", order.recipient,
                 order.migration, 100 * order.ranges.Share());
    std::lock_guard<std::mutex> lock(mutex_);
    recipient_ = order.recipient;
    donor_ = std::make_unique<DonorStream>(options_.stream, std::move(order), std::move(facts),
                                           engine_, pace_, this);
    if (over_) donor_->Stop();
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void Run() {
    absl::Status status = Donor()->Run();
    spdlog::info("transfer to {} ended{}", recipient_,
                 status.ok() ? "" : ": " + std::string(status.message()));
    // Only a key that cannot travel is hopeless; whatever ails the engine may pass.
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      status = absl::UnavailableError(status.message());
    }
    Finish(wire::ToGrpcStatus(status));
  }

  const TransferServerOptions& options_;
  CacheEngine* const engine_;
  DonorPace* const pace_;
  Streams* const streams_;
  v1::PullRequest request_;  // of the one read that is under way
  NodeId recipient_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable written_;
  // Guarded by mutex_.
  std::unique_ptr<DonorStream> donor_;  // set once
  v1::PullResponse response_;
  bool writing_ = false;
  bool over_ = false;
};

void Streams::Add(PullReactor* stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.insert(stream);
}

void Streams::Remove(PullReactor* stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.erase(stream);
  gone_.notify_all();
}

void Streams::Nudge() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (PullReactor* stream : streams_) stream->Nudge();
}

void Streams::StopAll() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (PullReactor* stream : streams_) stream->StopNow();
}

void Streams::WaitUntilNone() {
  std::unique_lock<std::mutex> lock(mutex_);
  gone_.wait(lock, [this] { return streams_.empty(); });
}

class GrpcTransferServer : public TransferServer, public v1::TransferService::CallbackService {
 public:
  GrpcTransferServer(TransferServerOptions options, CacheEngine* engine)
      : options_(std::move(options)), engine_(engine), pace_(options_.stream.clock) {}

  ~GrpcTransferServer() override {
    if (server_ == nullptr) return;
    streams_.StopAll();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    server_->Wait();
    streams_.WaitUntilNone();
  }

  absl::Status Listen() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(
          fmt::format("--listen: cannot listen on {}; is the port in use? Port 0 takes a free one",
                      options_.listen));
    }
    return absl::OkStatus();
  }

  grpc::ServerBidiReactor<v1::PullRequest, v1::PullResponse>* Pull(
      grpc::CallbackServerContext* /*context*/) override {
    return new PullReactor(options_, engine_, &pace_, &streams_);  // deletes itself in OnDone
  }

  int port() const override { return port_; }
  void Nudge() override { streams_.Nudge(); }

 private:
  const TransferServerOptions options_;
  CacheEngine* const engine_;
  DonorPace pace_;
  Streams streams_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TransferServer>> TransferServer::Start(TransferServerOptions options,
                                                                      CacheEngine* engine) {
  auto server = std::make_unique<GrpcTransferServer>(std::move(options), engine);
  RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace warmring
