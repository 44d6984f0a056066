#include "agent/transfer/pull_dialer.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
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

class GrpcPullChannel : public PullChannel {
 public:
  GrpcPullChannel(const std::string& address, PullOrder order)
      : stub_(v1::TransferService::NewStub(NewChannel(address))), order_(std::move(order)) {}

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
    v1::PullRequest request;
    request.mutable_acknowledge()->set_position(position);
    Write(request);
  }

  void Verify(const VerifyRequest& verify) override {
    v1::PullRequest request;
    *request.mutable_verify() = VerifyRequestToProto(verify);
    Write(request);
  }

  void Cancel() override { context_.TryCancel(); }

  absl::Status Finish() override {
    if (stream_ == nullptr) return absl::CancelledError("the stream never began");
    if (!malformed_.ok()) context_.TryCancel();
    const grpc::Status status = stream_->Finish();
    return malformed_.ok() ? wire::FromGrpcStatus(status) : malformed_;
  }

 private:
  using Stream = grpc::ClientReaderWriter<v1::PullRequest, v1::PullResponse>;

  void Begin() {
    std::unique_ptr<Stream> stream = stub_->Pull(&context_);
    v1::PullRequest request;
    *request.mutable_start() = PullOrderToProto(order_);
    // A failure shows in Read and Finish.
    stream->Write(request);
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = std::move(stream);
  }

  void Write(const v1::PullRequest& request) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream_) stream_->Write(request);
  }

  const std::unique_ptr<v1::TransferService::Stub> stub_;
  const PullOrder order_;
  grpc::ClientContext context_;
  absl::Status malformed_;
  std::mutex mutex_;  // one write at a time
  std::unique_ptr<Stream> stream_;  // set once, by the reader, under mutex_
};

}  // namespace

PullDialer GrpcPullDialer() {
  return [](const std::string& address, const PullOrder& order) {
    return std::make_unique<GrpcPullChannel>(address, order);
  };
}

}  // namespace warmring
