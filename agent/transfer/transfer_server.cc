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
  facts.membership = membership;
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
// done on a thread of its own, which is also the one that writes and finishes. Messages are parsed
// here and not by gRPC. Whatever two of gRPC's threads touch one after the other is under mutex_.
class PullReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                    public PullSink {
 public:
  PullReactor(const TransferServerOptions& options, CacheEngine* engine, DonorPace* pace,
              Streams* streams)
      : options_(options), engine_(engine), pace_(pace), streams_(streams) {}

  // Deletes itself in OnDone.
  void Start() {
    streams_->Add(this);
    std::lock_guard<std::mutex> lock(mutex_);
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status taken = TakeRequest(ok);
    if (!taken.ok()) Finish(wire::ToGrpcStatus(taken));
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard<std::mutex> lock(mutex_);
    writing_ = false;
    over_ = over_ || !ok;
    written_.notify_all();
  }

  void OnCancel() override { StopNow(); }

  void OnDone() override {
    std::thread thread;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      thread.swap(thread_);
    }
    if (thread.joinable()) thread.join();  // it has called Finish and is on its way out
    streams_->Remove(this);
    delete this;
  }

  bool Send(PullItem item) override {
    const v1::PullResponse response = PullItemToProto(std::move(item));
    std::unique_lock<std::mutex> lock(mutex_);
    if (over_) return false;
    response_.Clear();
    bool own_buffer = false;
    const grpc::Status packed =
        grpc::SerializationTraits<v1::PullResponse>::Serialize(response, &response_, &own_buffer);
    if (!packed.ok()) return false;
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
  // An error: the stream is to be finished with it; no thread of its own has been started then.
  // REQUIRES (also of Begin): mutex_ is held.
  absl::Status TakeRequest(bool ok) {
    v1::PullRequest request;
    const bool parsed =
        ok && grpc::SerializationTraits<v1::PullRequest>::Deserialize(&request_, &request).ok();
    if (donor_ == nullptr) {
      if (!ok) return absl::CancelledError("the stream ended before its start");
      RETURN_IF_ERROR(Begin(request));
    } else if (!parsed) {
      donor_->Stop();  // the recipient has hung up, or talks nonsense
      return absl::OkStatus();
    } else if (request.has_acknowledge()) {
      donor_->Acknowledge(request.acknowledge().position());
    } else if (request.has_verify()) {
      donor_->Verify(VerifyRequestFromProto(request.verify()));
    }
    StartRead(&request_);
    return absl::OkStatus();
  }

  absl::Status Begin(const v1::PullRequest& request) {
    if (!request.has_start()) {
      return absl::InvalidArgumentError("start: the first message of a stream must have it");
    }
    ASSIGN_OR_RETURN(PullOrder order, PullOrderFromProto(request.start()));
    ASSIGN_OR_RETURN(DonorFacts facts, OrderCheck(options_)(order));
    spdlog::info("transfer to {} begins: migration {}, {:.2f}% of the space", order.recipient,
                 order.migration, 100 * order.ranges.Share());
    const NodeId recipient = order.recipient;
    donor_ = std::make_unique<DonorStream>(options_.stream, std::move(order), std::move(facts),
                                           engine_, pace_, this);
    if (over_) donor_->Stop();
    thread_ = std::thread([this, donor = donor_.get(), recipient] { Run(*donor, recipient); });
    return absl::OkStatus();
  }

  void Run(DonorStream& donor, const NodeId& recipient) {
    absl::Status status = donor.Run();
    spdlog::info("transfer to {} ended{}", recipient,
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

  std::mutex mutex_;
  std::condition_variable written_;
  // Guarded by mutex_, but for the buffers while gRPC has them.
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::unique_ptr<DonorStream> donor_;  // set once
  std::thread thread_;
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

using RawTransferService =
    v1::TransferService::WithRawCallbackMethod_Pull<v1::TransferService::Service>;

class GrpcTransferServer : public TransferServer, public RawTransferService {
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

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Pull(
      grpc::CallbackServerContext* /*context*/) override {
    auto* const stream = new PullReactor(options_, engine_, &pace_, &streams_);
    stream->Start();
    return stream;
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
