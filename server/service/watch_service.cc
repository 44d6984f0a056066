#include "server/service/watch_service.h"

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "core/base/ids.h"
#include "core/base/status_macros.h"
#include "proto/wire/status.h"
#include "server/service/stream_set.h"
#include "warmring/v1/watch_service.grpc.pb.h"

namespace warmring {
namespace {

constexpr char kMethod[] = "WatchService/WatchMembership";
constexpr size_t kMaxClientNameBytes = 255;

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// The bytes themselves, kept alive by the buffer.
grpc::ByteBuffer Share(const WatchMessage& message) {
  auto* const keep = new WatchMessage(message);
  // The slice only reads; its interface knows no const.
  grpc::Slice slice(
      const_cast<char*>((*keep)->data()), (*keep)->size(),
      [](void* user_data) { delete static_cast<WatchMessage*>(user_data); }, keep);
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status CheckSubscribe(const v1::Subscribe& subscribe) {
  RETURN_IF_ERROR(ValidateId("subscribe.keyspace", subscribe.keyspace()));
  if (subscribe.client_name().size() <= kMaxClientNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("subscribe.client_name: {} bytes: use at most {}",
                                                subscribe.client_name().size(),
                                                kMaxClientNameBytes));
}

// One call. Shared by gRPC's reactor, which is gone after OnDone, and the hub, which may wake the
// stream a little later.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(const Gate* gate, WatchHub* hub, StreamSet<Stream>* streams,
         grpc::CallbackServerContext* context)
      : gate_(gate), hub_(hub), streams_(streams), context_(context) {}

  Reactor* Begin();
  void End(const absl::Status& status);

 private:
  class StreamReactor;

  absl::Status Attach();
  void Wake();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnDone();
  absl::Status Handle(const v1::WatchMembershipRequest& request);
  // REQUIRES: mutex_ is held.
  void WriteNext();
  void TryFinish();

  const Gate* const gate_;
  WatchHub* const hub_;
  StreamSet<Stream>* const streams_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WatchSubscriber> subscriber_;  // set before the first read
  grpc::ByteBuffer request_;

  std::mutex mutex_;
  StreamReactor* reactor_ = nullptr;  // guarded by mutex_, like the rest; null after OnDone
  grpc::ByteBuffer response_;         // being written
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> ending_;  // as soon as nothing is being written
};

class Stream::StreamReactor final : public Reactor {
 public:
  explicit StreamReactor(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void OnReadDone(bool ok) override { stream_->OnRead(ok); }
  void OnWriteDone(bool ok) override { stream_->OnWritten(ok); }
  void OnCancel() override { stream_->End(absl::CancelledError("the client is gone")); }
  void OnDone() override {
    stream_->OnDone();
    delete this;
  }

 private:
  const std::shared_ptr<Stream> stream_;
};

Reactor* Stream::Begin() {
  auto* const reactor = new StreamReactor(shared_from_this());
  const absl::Status attached = Attach();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reactor_ = reactor;
  }
  if (!attached.ok()) {
    End(attached);
  } else {
    reactor->StartRead(&request_);
  }
  return reactor;
}

absl::Status Stream::Attach() {
  RETURN_IF_ERROR(gate_->Enter(*context_, kMethod, "").status());
  if (!streams_->Add(shared_from_this())) {
    return absl::UnavailableError("the server is stopping: watch another one, or try again");
  }
  ASSIGN_OR_RETURN(subscriber_, hub_->Attach([weak = weak_from_this()] {
    if (const std::shared_ptr<Stream> stream = weak.lock()) stream->Wake();
  }));
  return absl::OkStatus();
}

void Stream::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  WriteNext();
}

void Stream::End(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ending_) ending_ = wire::ToGrpcStatus(status);
  TryFinish();
}

void Stream::TryFinish() {
  if (!ending_ || writing_ || finished_ || reactor_ == nullptr) return;
  finished_ = true;
  reactor_->Finish(*ending_);
}

void Stream::WriteNext() {
  if (writing_ || ending_ || reactor_ == nullptr) return;
  const WatchMessage message = subscriber_->Next();
  if (message == nullptr) return;
  writing_ = true;
  response_ = Share(message);
  reactor_->StartWrite(&response_);
}

void Stream::OnWritten(bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  writing_ = false;
  if (!ok && !ending_) ending_ = grpc::Status::CANCELLED;
  WriteNext();
  TryFinish();
}

void Stream::OnRead(bool ok) {
  if (!ok) {
    End(absl::OkStatus());
    return;
  }
  v1::WatchMembershipRequest request;
  const bool parsed =
      grpc::SerializationTraits<v1::WatchMembershipRequest>::Deserialize(&request_, &request).ok();
  const absl::Status handled =
      parsed ? Handle(request) : absl::InvalidArgumentError("request: it is not a valid message");
  if (!handled.ok()) {
    End(handled);
    return;
  }
  Wake();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!finished_ && reactor_ != nullptr) reactor_->StartRead(&request_);
}

absl::Status Stream::Handle(const v1::WatchMembershipRequest& request) {
  switch (request.request_case()) {
    case v1::WatchMembershipRequest::kSubscribe: {
      const v1::Subscribe& subscribe = request.subscribe();
      RETURN_IF_ERROR(CheckSubscribe(subscribe));
      // What may be watched is decided for each keyspace, and not once for the stream.
      const absl::Status allowed = gate_->Enter(*context_, kMethod, subscribe.keyspace()).status();
      if (allowed.ok()) {
        subscriber_->Subscribe(subscribe.keyspace(), subscribe.history(),
                               Version(subscribe.version()), subscribe.observer());
      } else {
        subscriber_->Refuse(subscribe.keyspace(), allowed);
      }
      return absl::OkStatus();
    }
    case v1::WatchMembershipRequest::kAcknowledge:
      subscriber_->Acknowledge(request.acknowledge().keyspace(),
                               Version(request.acknowledge().version()));
      return absl::OkStatus();
    case v1::WatchMembershipRequest::REQUEST_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("request: it is empty: subscribe or acknowledge");
}

void Stream::OnDone() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reactor_ = nullptr;
  }
  if (subscriber_ != nullptr) subscriber_->End();
  streams_->Remove(shared_from_this());
}

}  // namespace

class WatchService::Implementation final
    : public v1::WatchService::WithRawCallbackMethod_WatchMembership<v1::WatchService::Service> {
 public:
  Implementation(const Gate* gate, WatchHub* hub) : gate_(gate), hub_(hub) {}

  Reactor* WatchMembership(grpc::CallbackServerContext* context) override {
    return std::make_shared<Stream>(gate_, hub_, &streams_, context)->Begin();
  }

  void EndStreams() {
    for (const std::shared_ptr<Stream>& stream : streams_.TakeAll()) {
      stream->End(absl::UnavailableError("the server is stopping: watch again in a moment"));
    }
  }

 private:
  const Gate* const gate_;
  WatchHub* const hub_;
  StreamSet<Stream> streams_;
};

WatchService::WatchService(const Gate* gate, WatchHub* hub)
    : implementation_(std::make_unique<Implementation>(gate, hub)) {}
WatchService::~WatchService() = default;

void WatchService::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(implementation_.get());
}

void WatchService::EndStreams() { implementation_->EndStreams(); }

}  // namespace warmring
