#include "agent/transfer/pull_dialer.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "agent/transfer/pull_wire.h"
#include "proto/wire/status.h"
#include "warmring/v1/transfer_service.grpc.pb.h"

namespace warmring {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A connection of its own, and no share in the back-off of earlier ones.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // bounds the connect
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Writes on a thread of its own: a write waits while the donor does not read.
class GrpcPullChannel : public PullChannel {
 public:
  GrpcPullChannel(const std::string& address, PullOrder order)
      : stub_(v1::TransferService::NewStub(NewChannel(address))), order_(std::move(order)) {}

  ~GrpcPullChannel() override {
    Cancel();
    StopWriter();
  }

  bool Read(PullItem* item) override {
    if (stream_ == nullptr) Begin();
    v1::PullResponse response;
    if (!stream_->Read(&response)) return false;
    absl::StatusOr<PullItem> read = PullItemFromProto(std::move(response));
    if (!read.ok()) {
      malformed_ = read.status();
      return false;
    }
    *item = *std::move(read);
    return true;
  }

  void Acknowledge(uint64_t position) override {
    std::lock_guard<std::mutex> lock(mutex_);
    acknowledged_ = position;
    wake_.notify_all();
  }

  void Verify(const VerifyRequest& verify) override {
    std::lock_guard<std::mutex> lock(mutex_);
    verifies_.push_back(verify);
    wake_.notify_all();
  }

  void Cancel() override { context_.TryCancel(); }

  absl::Status Finish() override {
    if (stream_ == nullptr) return absl::CancelledError("the stream never began");
    if (!malformed_.ok()) context_.TryCancel();
    StopWriter();
    const grpc::Status status = stream_->Finish();
    return malformed_.ok() ? wire::FromGrpcStatus(status) : malformed_;
  }

 private:
  void Begin() {
    stream_ = stub_->Pull(&context_);
    writer_ = std::thread([this] { RunWriter(); });
  }

  void RunWriter() {
    v1::PullRequest request;
    *request.mutable_start() = PullOrderToProto(order_);
    // A failure shows in Read and Finish.
    while (stream_->Write(request) && NextRequest(&request)) {
    }
  }

  // Waits for something to say. False: the stream is over.
  bool NextRequest(v1::PullRequest* request) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return over_ || acknowledged_.has_value() || !verifies_.empty(); });
    if (over_) return false;
    request->Clear();
    if (!verifies_.empty()) {
      *request->mutable_verify() = VerifyRequestToProto(verifies_.front());
      verifies_.pop_front();
    } else {
      request->mutable_acknowledge()->set_position(*acknowledged_);
      acknowledged_.reset();
    }
    return true;
  }

  // REQUIRES: the stream is over or cancelled, so that no write can wait.
  void StopWriter() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
      wake_.notify_all();
    }
    if (writer_.joinable()) writer_.join();
  }

  const std::unique_ptr<v1::TransferService::Stub> stub_;
  const PullOrder order_;
  grpc::ClientContext context_;
  // Of the thread that reads.
  std::unique_ptr<grpc::ClientReaderWriter<v1::PullRequest, v1::PullResponse>> stream_;
  absl::Status malformed_;
  std::thread writer_;

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::optional<uint64_t> acknowledged_;  // the newest one, not sent yet
  std::deque<VerifyRequest> verifies_;
  bool over_ = false;
};

}  // namespace

PullDialer GrpcPullDialer() {
  return [](const std::string& address, const PullOrder& order) {
    return std::make_unique<GrpcPullChannel>(address, order);
  };
}

}  // namespace warmring
