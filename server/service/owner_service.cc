#include "server/service/owner_service.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <spdlog/spdlog.h>

#include "core/base/ids.h"
#include "core/base/status_macros.h"
#include "core/membership/node.h"
#include "proto/wire/membership.h"
#include "proto/wire/status.h"
#include "proto/wire/task.h"
#include "server/service/stream_set.h"
#include "server/sessions/sessions.h"
#include "warmring/v1/owner_service.grpc.pb.h"

namespace warmring {
namespace {

constexpr char kMethod[] = "OwnerService/Session";
constexpr std::chrono::seconds kHelloWithin{10};

absl::StatusOr<SessionHello> HelloFromProto(const v1::Hello& proto) {
  RETURN_IF_ERROR(ValidateId("hello.keyspace", proto.keyspace()));
  RETURN_IF_ERROR(ValidateId("hello.node", proto.node()));
  SessionHello hello;
  hello.node = proto.node();
  ASSIGN_OR_RETURN(hello.incarnation,
                   wire::IdFromProto<Incarnation>("hello.incarnation", proto.incarnation()));
  if (hello.incarnation.IsZero()) {
    return absl::InvalidArgumentError("hello.incarnation: it is zero: use 128 random bits");
  }
  if (!proto.transfer_address().empty()) {
    RETURN_IF_ERROR(ValidateAddress("hello.transfer_address", proto.transfer_address()));
  }
  if (!proto.data_address().empty()) {
    RETURN_IF_ERROR(ValidateAddress("hello.data_address", proto.data_address()));
  }
  hello.transfer_address = proto.transfer_address();
  hello.data_address = proto.data_address();
  hello.rdb_version = proto.rdb_version();
  return hello;
}

v1::SessionResponse ToProto(const SessionWelcome& welcome) {
  v1::SessionResponse response;
  v1::Welcome* proto = response.mutable_welcome();
  proto->set_history(welcome.history.ToString());
  proto->set_term(welcome.term.value);
  absl::Duration rest;
  proto->mutable_lease()->set_seconds(absl::IDivDuration(welcome.lease, absl::Seconds(1), &rest));
  proto->mutable_lease()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  proto->set_on_restart(welcome.on_restart == OnRestart::kTrust ? v1::ON_RESTART_TRUST
                                                                : v1::ON_RESTART_PURGE);
  return response;
}

v1::SessionResponse ToProto(const SessionTasks& tasks) {
  v1::SessionResponse response;
  response.mutable_tasks()->set_term(tasks.term.value);
  for (const Task& task : tasks.tasks) {
    *response.mutable_tasks()->add_tasks() = wire::ToProto(task);
  }
  return response;
}

v1::SessionResponse ToProto(const LeaseGrant& grant) {
  v1::SessionResponse response;
  *response.mutable_grant() = wire::ToProto(grant);
  return response;
}

struct Shared;

// One call, from before it comes in until its last event. Kept alive by each operation that is
// under way, by the set of streams and by the sessions that send through it.
class Call final : public SessionLink, public std::enable_shared_from_this<Call> {
 public:
  explicit Call(Shared* shared);

  // Waits for a call to come in.
  void Request();

  // Of several messages of a kind that cannot be written yet, the newest is written: each is the
  // complete present state.
  void Send(SessionMessage message) override;
  void Close(absl::Status status) override;

  struct Operation {
    enum class Kind { kRequest, kRead, kWrite, kFinish, kTimeout };
    Operation(Call* call_in, Kind kind_in) : call(call_in), kind(kind_in) {}
    Call* const call;
    const Kind kind;
    std::shared_ptr<Call> keep;  // while the completion queue has this as a tag
  };
  // An operation is over. Called on the thread of the completion queue.
  static void Complete(Operation* operation, bool ok);

 private:
  void* Tag(Operation& operation);
  void OnRequest(bool ok);
  void OnRead(bool ok);
  void OnWrite(bool ok);
  void OnTimeout(bool ok);
  void StartRead();
  absl::Status Handle(const v1::SessionRequest& request);
  absl::Status HandleHello(const v1::Hello& hello);
  void HandleReport(const v1::Report& report);
  // REQUIRES, both: mutex_ is held.
  void Pump();
  std::optional<v1::SessionResponse> TakeNext();

  Shared* const shared_;
  const StreamId id_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<v1::SessionResponse, v1::SessionRequest> stream_;
  grpc::Alarm timeout_alarm_;
  v1::SessionRequest request_;
  Operation request_operation_{this, Operation::Kind::kRequest};
  Operation read_{this, Operation::Kind::kRead};
  Operation write_{this, Operation::Kind::kWrite};
  Operation finish_{this, Operation::Kind::kFinish};
  Operation timeout_{this, Operation::Kind::kTimeout};

  // Set by the hello, on the thread of the completion queue, and used there alone.
  KeyspaceRuntime* runtime_ = nullptr;
  NodeId node_;

  std::mutex mutex_;
  std::optional<SessionWelcome> welcome_;  // guarded by mutex_, like the rest
  std::optional<SessionTasks> tasks_;
  std::optional<LeaseGrant> grant_;
  v1::SessionResponse response_;  // being written
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> ending_;  // as soon as nothing is being written
};

// What all calls use.
struct Shared {
  const Gate* gate = nullptr;
  KeyspaceRuntimes* runtimes = nullptr;
  v1::OwnerService::AsyncService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::atomic<StreamId> next_stream{1};
  StreamSet<Call> streams;

  // Runs `start`, which begins one operation, unless the queue is shut down: it must not be given
  // any more then.
  template <typename Start>
  void IfOpen(Start start) {
    const std::shared_lock<std::shared_mutex> lock(open_mutex);
    if (open) start();
  }
  std::shared_mutex open_mutex;
  bool open = true;  // guarded by open_mutex
};

Call::Call(Shared* shared)
    : shared_(shared), id_(shared->next_stream.fetch_add(1)), stream_(&context_) {}

void* Call::Tag(Operation& operation) {
  operation.keep = shared_from_this();
  return &operation;
}

void Call::Complete(Operation* operation, bool ok) {
  const std::shared_ptr<Call> call = std::move(operation->keep);
  operation->keep = nullptr;
  switch (operation->kind) {
    case Operation::Kind::kRequest:
      return call->OnRequest(ok);
    case Operation::Kind::kRead:
      return call->OnRead(ok);
    case Operation::Kind::kWrite:
      return call->OnWrite(ok);
    case Operation::Kind::kFinish:
      return call->shared_->streams.Remove(call);
    case Operation::Kind::kTimeout:
      return call->OnTimeout(ok);
  }
}

void Call::Request() {
  shared_->IfOpen([this] {
    shared_->service.RequestSession(&context_, &stream_, shared_->queue.get(), shared_->queue.get(),
                                    Tag(request_operation_));
  });
}

void Call::OnRequest(bool ok) {
  // Not ok: the server is shutting down and takes no more calls.
  if (!ok) return;
  std::make_shared<Call>(shared_)->Request();
  const absl::Status allowed = shared_->gate->Enter(context_, kMethod, "").status();
  if (!allowed.ok()) return Close(allowed);
  if (!shared_->streams.Add(shared_from_this())) {
    return Close(absl::UnavailableError("the server is stopping: open the session again"));
  }
  shared_->IfOpen([this] {
    timeout_alarm_.Set(shared_->queue.get(), std::chrono::system_clock::now() + kHelloWithin,
                       Tag(timeout_));
  });
  StartRead();
}

void Call::StartRead() {
  shared_->IfOpen([this] { stream_.Read(&request_, Tag(read_)); });
}

void Call::OnTimeout(bool ok) {
  if (!ok || runtime_ != nullptr) return;
  Close(absl::DeadlineExceededError(fmt::format(
      "hello: none came within {} s: it is the first message of a session", kHelloWithin.count())));
}

void Call::OnRead(bool ok) {
  if (!ok) {
    timeout_alarm_.Cancel();
    if (runtime_ != nullptr) {
      runtime_->strand().Post([runtime = runtime_, id = id_] { runtime->sessions().Closed(id); });
    }
    return Close(absl::OkStatus());
  }
  // Reading goes on after an error, so that the end of the stream is seen; nothing is done with it.
  bool ending = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending = ending_.has_value();
  }
  if (!ending) {
    if (absl::Status handled = Handle(request_); !handled.ok()) Close(std::move(handled));
  }
  StartRead();
}

absl::Status Call::Handle(const v1::SessionRequest& request) {
  if (runtime_ == nullptr) {
    if (!request.has_hello()) {
      return absl::InvalidArgumentError("request: the first message of a session is hello");
    }
    return HandleHello(request.hello());
  }
  switch (request.request_case()) {
    case v1::SessionRequest::kRenew: {
      SessionRenewal renewal;
      renewal.seq = request.renew().seq();
      renewal.applied_version = Version(request.renew().applied_version());
      renewal.keys = request.renew().keys();
      renewal.bytes = request.renew().bytes();
      runtime_->strand().Post(
          [runtime = runtime_, id = id_, renewal] { runtime->sessions().Renew(id, renewal); });
      return absl::OkStatus();
    }
    case v1::SessionRequest::kReport:
      HandleReport(request.report());
      return absl::OkStatus();
    case v1::SessionRequest::kHello:
      return absl::InvalidArgumentError("hello: it came twice: open another stream");
    case v1::SessionRequest::REQUEST_NOT_SET:
      return absl::OkStatus();  // of a newer owner
  }
  return absl::OkStatus();
}

absl::Status Call::HandleHello(const v1::Hello& proto) {
  ASSIGN_OR_RETURN(SessionHello hello, HelloFromProto(proto));
  RETURN_IF_ERROR(shared_->gate->Enter(context_, kMethod, proto.keyspace()).status());
  ASSIGN_OR_RETURN(runtime_, shared_->runtimes->Find(proto.keyspace()));
  node_ = hello.node;
  timeout_alarm_.Cancel();
  runtime_->strand().Post(
      [runtime = runtime_, id = id_, hello = std::move(hello), self = shared_from_this()] {
        runtime->sessions().Open(id, hello, self);
      });
  return absl::OkStatus();
}

void Call::HandleReport(const v1::Report& proto) {
  absl::StatusOr<TaskReport> report = wire::TaskReportFromProto(node_, proto);
  if (!report.ok()) {
    // The session is worth more than the report: without it the node could not write any more.
    spdlog::warn("keyspace {}: node {} sent a report that is dropped: {}",
                 runtime_->keyspace().id(), node_, std::string(report.status().message()));
    return;
  }
  runtime_->strand().Post([runtime = runtime_, id = id_, report = *std::move(report)] {
    runtime->sessions().Report(id, report);
  });
}

void Call::Send(SessionMessage message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (auto* welcome = std::get_if<SessionWelcome>(&message)) welcome_ = *welcome;
  if (auto* tasks = std::get_if<SessionTasks>(&message)) tasks_ = std::move(*tasks);
  if (auto* grant = std::get_if<LeaseGrant>(&message)) grant_ = std::move(*grant);
  Pump();
}

void Call::Close(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ending_) ending_ = wire::ToGrpcStatus(status);
  Pump();
}

void Call::Pump() {
  if (writing_ || finished_) return;
  if (ending_) {
    finished_ = true;
    shared_->IfOpen([this] { stream_.Finish(*ending_, Tag(finish_)); });
    return;
  }
  std::optional<v1::SessionResponse> next = TakeNext();
  if (!next) return;
  response_ = *std::move(next);
  writing_ = true;
  shared_->IfOpen([this] { stream_.Write(response_, Tag(write_)); });
}

std::optional<v1::SessionResponse> Call::TakeNext() {
  if (welcome_) return ToProto(*std::exchange(welcome_, std::nullopt));
  if (tasks_) return ToProto(*std::exchange(tasks_, std::nullopt));
  if (grant_) return ToProto(*std::exchange(grant_, std::nullopt));
  return std::nullopt;
}

void Call::OnWrite(bool ok) {
  const std::lock_guard<std::mutex> lock(mutex_);
  writing_ = false;
  if (!ok && !ending_) ending_ = grpc::Status::CANCELLED;
  Pump();
}

}  // namespace

namespace {

// Calls `start` at the end of BuildAndStart: calls can be asked for only once the server runs.
class StartWithServer final : public grpc::ServerBuilderPlugin, public grpc::ServerBuilderOption {
 public:
  explicit StartWithServer(std::function<void()> start) : start_(std::move(start)) {}

  std::string name() override { return "warmring_owner_service"; }
  void InitServer(grpc::ServerInitializer*) override {}
  void Finish(grpc::ServerInitializer*) override { start_(); }
  void ChangeArguments(const std::string&, void*) override {}

  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->push_back(std::make_unique<StartWithServer>(start_));
  }

 private:
  const std::function<void()> start_;
};

}  // namespace

class OwnerService::Implementation {
 public:
  Implementation(const Gate* gate, KeyspaceRuntimes* runtimes) {
    shared_.gate = gate;
    shared_.runtimes = runtimes;
  }

  ~Implementation() { Stop(); }

  void Register(grpc::ServerBuilder& builder) {
    builder.RegisterService(&shared_.service);
    shared_.queue = builder.AddCompletionQueue();
    builder.SetOption(std::make_unique<StartWithServer>([this] {
      std::make_shared<Call>(&shared_)->Request();
      thread_ = std::thread([this] { Serve(); });
    }));
  }

  void Stop() {
    if (shared_.queue == nullptr) return;
    {
      const std::lock_guard<std::shared_mutex> lock(shared_.open_mutex);
      if (!shared_.open) return;
      shared_.open = false;
    }
    shared_.queue->Shutdown();
    if (thread_.joinable()) {
      thread_.join();
    } else {
      Serve();
    }
  }

  void EndStreams() {
    for (const std::shared_ptr<Call>& call : shared_.streams.TakeAll()) {
      call->Close(absl::UnavailableError("the server is stopping: open the session again"));
    }
  }

 private:
  // Until the queue is shut down and empty.
  void Serve() {
    void* tag = nullptr;
    bool ok = false;
    while (shared_.queue->Next(&tag, &ok)) {
      Call::Complete(static_cast<Call::Operation*>(tag), ok);
    }
  }

  Shared shared_;
  std::thread thread_;
};

OwnerService::OwnerService(const Gate* gate, KeyspaceRuntimes* runtimes)
    : implementation_(std::make_unique<Implementation>(gate, runtimes)) {}
OwnerService::~OwnerService() = default;

void OwnerService::Register(grpc::ServerBuilder& builder) { implementation_->Register(builder); }
void OwnerService::EndStreams() { implementation_->EndStreams(); }
void OwnerService::Stop() { implementation_->Stop(); }

}  // namespace warmring
