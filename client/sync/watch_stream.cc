#include "client/sync/watch_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "client/base/channel.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"
#include "warmring/v1/watch_service.grpc.pb.h"

namespace warmring {
namespace {

WatchMessage FromProto(const v1::WatchMembershipResponse& response) {
  switch (response.response_case()) {
    case v1::WatchMembershipResponse::kSnapshot: {
      const v1::SnapshotChunk& chunk = response.snapshot();
      return SnapshotPiece{Version(chunk.version()), chunk.index(), chunk.count(), chunk.data()};
    }
    case v1::WatchMembershipResponse::kDelta: {
      absl::StatusOr<Delta> delta = wire::DeltaFromProto(response.delta());
      if (!delta.ok()) return WatchGarbage{delta.status()};
      return *std::move(delta);
    }
    case v1::WatchMembershipResponse::kProgress:
      return WatchProgress{Version(response.progress().version()), response.progress().watchers()};
    case v1::WatchMembershipResponse::kError:
      return WatchRefusal{response.error().reason(), response.error().message()};
    case v1::WatchMembershipResponse::RESPONSE_NOT_SET:
      break;
  }
  return WatchGarbage{absl::InvalidArgumentError("a watch message without content")};
}

class GrpcWatchStream final : public WatchStream {
 public:
  GrpcWatchStream(const std::string& endpoint, WatchSubject subject)
      : stub_(v1::WatchService::NewStub(MakeChannel(endpoint))), subject_(std::move(subject)) {}

  // The start of a synchronous stream waits for the connection; what goes wrong
  // there shows in the first read.
  bool Start() override {
    stream_ = stub_->WatchMembership(&context_);
    return true;
  }

  bool Write(const WatchRequest& request) override {
    v1::WatchMembershipRequest proto;
    if (const auto* subscribe = std::get_if<WatchSubscribe>(&request)) {
      v1::Subscribe* out = proto.mutable_subscribe();
      out->set_keyspace(subject_.keyspace);
      out->set_client_name(subject_.client_name);
      out->set_observer(subject_.observer);
      if (subscribe->version.value != 0) {
        out->set_history(subscribe->history.ToString());
        out->set_version(subscribe->version.value);
      }
    } else {
      v1::Acknowledge* out = proto.mutable_acknowledge();
      out->set_keyspace(subject_.keyspace);
      out->set_version(std::get<WatchAcknowledge>(request).version.value);
    }
    return stream_->Write(proto);
  }

  std::optional<WatchMessage> Read() override {
    v1::WatchMembershipResponse response;
    while (stream_->Read(&response)) {
      // Progress of the stream as a whole names no keyspace.
      if (response.keyspace() == subject_.keyspace || response.keyspace().empty()) {
        return FromProto(response);
      }
    }
    return std::nullopt;
  }

  absl::Status Finish() override { return wire::FromGrpcStatus(stream_->Finish()); }

  void Cancel() override { context_.TryCancel(); }

 private:
  const std::unique_ptr<v1::WatchService::Stub> stub_;
  const WatchSubject subject_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WatchMembershipRequest, v1::WatchMembershipResponse>>
      stream_;
};

class GrpcWatchTransport final : public WatchTransport {
 public:
  explicit GrpcWatchTransport(WatchSubject subject) : subject_(std::move(subject)) {}
  std::unique_ptr<WatchStream> Open(const std::string& endpoint) override {
    return std::make_unique<GrpcWatchStream>(endpoint, subject_);
  }

 private:
  const WatchSubject subject_;
};

}  // namespace

std::unique_ptr<WatchTransport> MakeGrpcWatchTransport(WatchSubject subject) {
  return std::make_unique<GrpcWatchTransport>(std::move(subject));
}

SnapshotDecoder ProtoSnapshotDecoder() {
  return [](std::string_view bytes) -> absl::StatusOr<Membership::Ptr> {
    v1::Membership proto;
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::InvalidArgumentError("the snapshot is no serialised membership");
    }
    return wire::MembershipFromProto(proto);
  };
}

}  // namespace warmring
