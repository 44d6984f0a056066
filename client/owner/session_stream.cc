#include "client/owner/session_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <utility>

#include "client/base/channel.h"
#include "core/base/status_macros.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"
#include "proto/wire/task.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"
#include "warmring/v1/owner_service.grpc.pb.h"

namespace warmring {
namespace {

constexpr std::chrono::seconds kDiscoverTimeout{5};

absl::StatusOr<SessionResponse> WelcomeFromProto(const v1::Welcome& proto) {
  SessionWelcome welcome;
  ASSIGN_OR_RETURN(welcome.history, wire::IdFromProto<HistoryId>("history", proto.history()));
  welcome.term = Term(proto.term());
  welcome.lease = absl::Seconds(proto.lease().seconds()) + absl::Nanoseconds(proto.lease().nanos());
  if (welcome.lease <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("lease: the server's is not positive");
  }
  return welcome;
}

absl::StatusOr<SessionResponse> TasksFromProto(const v1::TaskList& proto) {
  SessionTasks tasks;
  tasks.term = Term(proto.term());
  for (const v1::Task& task : proto.tasks()) {
    ASSIGN_OR_RETURN(Task value, wire::TaskFromProto(task));
    tasks.tasks.push_back(std::move(value));
  }
  return tasks;
}

absl::StatusOr<SessionResponse> FromProto(const v1::SessionResponse& response) {
  switch (response.response_case()) {
    case v1::SessionResponse::kWelcome:
      return WelcomeFromProto(response.welcome());
    case v1::SessionResponse::kGrant: {
      ASSIGN_OR_RETURN(LeaseGrant grant, wire::LeaseGrantFromProto(response.grant()));
      return grant;
    }
    case v1::SessionResponse::kTasks:
      return TasksFromProto(response.tasks());
    case v1::SessionResponse::RESPONSE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a session message without content");
}

class GrpcSessionStream final : public SessionStream {
 public:
  GrpcSessionStream(const std::string& endpoint, KeyspaceId keyspace, NodeId node)
      : channel_(MakeChannel(endpoint)),
        stub_(v1::OwnerService::NewStub(channel_)),
        keyspace_(std::move(keyspace)),
        node_(std::move(node)) {}

  absl::StatusOr<ServedKeyspace> Discover() override {
    const auto stub = v1::KeyspaceService::NewStub(channel_);
    discover_.set_deadline(std::chrono::system_clock::now() + kDiscoverTimeout);
    v1::GetKeyspaceRequest request;
    request.set_keyspace(keyspace_);
    v1::GetKeyspaceResponse response;
    RETURN_IF_ERROR(wire::FromGrpcStatus(stub->GetKeyspace(&discover_, request, &response)));
    ServedKeyspace served;
    ASSIGN_OR_RETURN(served.history, wire::IdFromProto<HistoryId>("keyspace.history",
                                                                  response.keyspace().history()));
    ASSIGN_OR_RETURN(const KeyspaceSpec spec,
                     wire::KeyspaceSpecFromProto(response.keyspace().spec()));
    served.on_restart = spec.on_restart;
    return served;
  }

  bool Start() override {
    stream_ = stub_->Session(&context_);
    return true;
  }

  bool Write(const SessionRequest& request) override {
    v1::SessionRequest proto;
    if (const auto* identity = std::get_if<OwnerPort::Identity>(&request)) {
      v1::Hello* hello = proto.mutable_hello();
      hello->set_keyspace(keyspace_);
      hello->set_node(node_);
      hello->set_incarnation(identity->incarnation.ToString());
      hello->set_transfer_address(identity->transfer_address);
      hello->set_rdb_version(identity->rdb_version);
      hello->set_data_address(identity->data_address);
    } else if (const auto* renewal = std::get_if<OwnerPort::Renewal>(&request)) {
      v1::Renew* renew = proto.mutable_renew();
      renew->set_seq(renewal->seq);
      renew->set_applied_version(renewal->applied_version.value);
      renew->set_keys(renewal->keys);
      renew->set_bytes(renewal->bytes);
    } else {
      *proto.mutable_report() = wire::ToProto(std::get<TaskReport>(request));
    }
    return stream_->Write(proto);
  }

  std::optional<SessionResponse> Read() override {
    v1::SessionResponse response;
    if (!stream_->Read(&response)) return std::nullopt;
    absl::StatusOr<SessionResponse> value = FromProto(response);
    if (!value.ok()) return SessionGarbage{value.status()};
    return *std::move(value);
  }

  absl::Status Finish() override { return wire::FromGrpcStatus(stream_->Finish()); }

  void Cancel() override {
    discover_.TryCancel();
    context_.TryCancel();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::OwnerService::Stub> stub_;
  const KeyspaceId keyspace_;
  const NodeId node_;
  grpc::ClientContext discover_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;
};

class GrpcSessionTransport final : public SessionTransport {
 public:
  GrpcSessionTransport(KeyspaceId keyspace, NodeId node)
      : keyspace_(std::move(keyspace)), node_(std::move(node)) {}
  std::unique_ptr<SessionStream> Open(const std::string& endpoint) override {
    return std::make_unique<GrpcSessionStream>(endpoint, keyspace_, node_);
  }

 private:
  const KeyspaceId keyspace_;
  const NodeId node_;
};

}  // namespace

std::unique_ptr<SessionTransport> MakeGrpcSessionTransport(KeyspaceId keyspace, NodeId node) {
  return std::make_unique<GrpcSessionTransport>(std::move(keyspace), std::move(node));
}

}  // namespace warmring
