#include "tests/integration/server_parts_testing.h"

#include <chrono>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "core/base/reason.h"
#include "tests/support/wait.h"

namespace warmring {
namespace {

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

std::string IncarnationText(uint64_t number) {
  Incarnation incarnation;
  if (number == 0) {
    std::random_device random;
    incarnation.high = (uint64_t{random()} << 32) | random();
    number = (uint64_t{random()} << 32) | random() | 1;
  }
  incarnation.low = number;
  return incarnation.ToString();
}

}  // namespace

ServerApi::ServerApi(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A server that comes back is seen at once.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  // This one is the time that an attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  keyspaces_ = v1::KeyspaceService::NewStub(channel_);
  migrations_ = v1::MigrationService::NewStub(channel_);
  watch_ = v1::WatchService::NewStub(channel_);
  owners_ = v1::OwnerService::NewStub(channel_);
}

absl::StatusOr<v1::CreateKeyspaceResponse> ServerApi::Create(
    const v1::CreateKeyspaceRequest& request) {
  return Call(&v1::KeyspaceService::Stub::CreateKeyspace, request, *keyspaces_);
}

absl::StatusOr<v1::Keyspace> ServerApi::Get(const std::string& keyspace) {
  v1::GetKeyspaceRequest request;
  request.set_keyspace(keyspace);
  auto response = Call(&v1::KeyspaceService::Stub::GetKeyspace, request, *keyspaces_);
  if (!response.ok()) return response.status();
  return response->keyspace();
}

absl::StatusOr<v1::ListNodesResponse> ServerApi::Nodes(const std::string& keyspace) {
  v1::ListNodesRequest request;
  request.set_keyspace(keyspace);
  return Call(&v1::KeyspaceService::Stub::ListNodes, request, *keyspaces_);
}

absl::StatusOr<v1::SubmitMigrationResponse> ServerApi::Submit(
    const v1::SubmitMigrationRequest& request) {
  return Call(&v1::MigrationService::Stub::SubmitMigration, request, *migrations_);
}

absl::StatusOr<v1::Migration> ServerApi::Migration(const std::string& keyspace,
                                                   const std::string& id) {
  v1::GetMigrationRequest request;
  request.set_keyspace(keyspace);
  request.set_migration(id);
  auto response = Call(&v1::MigrationService::Stub::GetMigration, request, *migrations_);
  if (!response.ok()) return response.status();
  return response->migration();
}

absl::StatusOr<v1::Migration> ServerApi::Abort(const std::string& keyspace, const std::string& id) {
  v1::AbortMigrationRequest request;
  request.set_keyspace(keyspace);
  request.set_migration(id);
  auto response = Call(&v1::MigrationService::Stub::AbortMigration, request, *migrations_);
  if (!response.ok()) return response.status();
  return response->migration();
}

absl::StatusOr<v1::Migration> ServerApi::Undo(const std::string& keyspace, const std::string& id) {
  v1::UndoMigrationRequest request;
  request.set_keyspace(keyspace);
  request.set_migration(id);
  auto response = Call(&v1::MigrationService::Stub::UndoMigration, request, *migrations_);
  if (!response.ok()) return response.status();
  return response->migration();
}

v1::Node MakeNode(const std::string& id) {
  v1::Node node;
  node.set_id(id);
  node.set_address(id + ".example:6379");
  return node;
}

v1::CreateKeyspaceRequest CreateRequest(int count, v1::PlacementKind placement) {
  v1::CreateKeyspaceRequest request;
  request.mutable_spec()->set_id("sessions");
  request.mutable_spec()->set_placement(placement);
  request.mutable_spec()->set_directory_bits(10);
  request.set_reason("test");
  for (int i = 1; i <= count; ++i) *request.add_nodes() = MakeNode(fmt::format("cache-{}", i));
  return request;
}

v1::SubmitMigrationRequest AddNodeRequest(const std::string& node, absl::Duration soak) {
  v1::SubmitMigrationRequest request;
  v1::MigrationPlan* plan = request.mutable_plan();
  plan->set_keyspace("sessions");
  plan->set_reason("more room");
  *plan->add_changes()->mutable_add()->mutable_node() = MakeNode(node);
  v1::Strategy* strategy = plan->mutable_strategy();
  strategy->add_commit_steps(0.3);
  strategy->add_commit_steps(1.0);
  *strategy->mutable_hold() = ToProto(absl::Milliseconds(50));
  *strategy->mutable_soak() = ToProto(soak);
  *strategy->mutable_warm_timeout() = ToProto(absl::Seconds(60));
  *strategy->mutable_fence_timeout() = ToProto(absl::Seconds(20));
  return request;
}

ScriptedOwner::ScriptedOwner(Options options)
    : options_(std::move(options)), incarnation_(IncarnationText(options_.incarnation)) {
  thread_ = std::thread([this] { Run(); });
}

ScriptedOwner::~ScriptedOwner() {
  stopping_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  thread_.join();
}

absl::Status ScriptedOwner::last_status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_status_;
}

void ScriptedOwner::Run() {
  ServerApi api(options_.address);
  while (!stopping_) Serve(api);
}

void ScriptedOwner::Serve(ServerApi& api) {
  grpc::ClientContext context;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    context_ = &context;
  }
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(5));
  const auto stream = api.owners().Session(&context);
  v1::SessionRequest request;
  v1::Hello* hello = request.mutable_hello();
  hello->set_keyspace(options_.keyspace);
  hello->set_node(options_.node);
  hello->set_incarnation(incarnation_);
  hello->set_transfer_address("127.0.0.1:9");
  hello->set_data_address(options_.node + ".example:6379");
  hello->set_rdb_version(10);
  Write(*stream, request);
  std::atomic<bool> done = false;
  std::thread renewals;
  v1::SessionResponse response;
  while (stream->Read(&response)) {
    if (response.has_welcome()) {
      term_ = response.welcome().term();
      ++welcomes_;
      renewals = std::thread([&] { RenewUntilDone(*stream, done); });
    } else if (response.has_grant()) {
      // Installed at once, as a real owner does by its own watch.
      applied_ = response.grant().version();
      ++grants_;
    } else if (response.has_tasks()) {
      Answer(*stream, response.tasks());
    }
  }
  done = true;
  if (renewals.joinable()) renewals.join();
  const absl::Status status = wire::FromGrpcStatus(stream->Finish());
  const std::lock_guard<std::mutex> lock(mutex_);
  last_status_ = status;
  context_ = nullptr;
}

void ScriptedOwner::RenewUntilDone(Stream& stream, const std::atomic<bool>& done) {
  for (uint64_t seq = 1; !done && !stopping_; ++seq) {
    v1::SessionRequest request;
    request.mutable_renew()->set_seq(seq);
    request.mutable_renew()->set_applied_version(applied_);
    request.mutable_renew()->set_keys(1000);
    request.mutable_renew()->set_bytes(100'000);
    Write(stream, request);
    // The pace of renewals; the end of the session cuts it short.
    const absl::Status paced = support::WaitFor("the session's end", absl::Milliseconds(40),
                                                [&] { return done || stopping_; });
    if (paced.ok()) return;
  }
}

void ScriptedOwner::Answer(Stream& stream, const v1::TaskList& tasks) {
  for (const v1::Task& task : tasks.tasks()) {
    if (options_.answers && !options_.answers(task)) continue;
    v1::SessionRequest request;
    v1::Report* report = request.mutable_report();
    report->set_migration(task.migration());
    report->set_wave(task.wave());
    report->set_nonce(task.nonce());
    report->set_incarnation(incarnation_);
    if (task.has_warm()) {
      report->mutable_warm()->set_purged(true);
      report->mutable_warm()->set_caught_up(true);
      report->mutable_warm()->set_keys(100);
    } else if (task.has_verify()) {
      report->mutable_verify()->set_compared(task.verify().sample());
      report->mutable_verify()->set_done(true);
    } else if (task.has_fence()) {
      report->mutable_fence()->set_floor(task.fence().floor());
      report->mutable_fence()->set_log_id("log-" + options_.node);
      report->mutable_fence()->set_watermark(7);
      report->mutable_fence()->set_dirty_complete(true);
    } else if (task.has_prepare()) {
      report->mutable_prepared()->set_epoch(task.prepare().epoch());
      report->mutable_prepared()->set_mode(task.prepare().mode());
      for (const v1::PrepareDonor& donor : task.prepare().donors()) {
        report->mutable_prepared()->add_donors(donor.source().donor());
        report->mutable_prepared()->add_log_ids(donor.log_id());
        report->mutable_prepared()->add_applied(donor.watermark());
      }
    }
    Write(stream, request);
  }
}

void ScriptedOwner::Write(Stream& stream, const v1::SessionRequest& request) {
  const std::lock_guard<std::mutex> lock(write_mutex_);
  stream.Write(request);
}

}  // namespace warmring
