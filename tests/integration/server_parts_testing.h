#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "proto/wire/status.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"
#include "warmring/v1/migration_service.grpc.pb.h"
#include "warmring/v1/owner_service.grpc.pb.h"
#include "warmring/v1/watch_service.grpc.pb.h"

// What the tests of the running server use: its API with errors as absl::Status, and an owner that
// does at once whatever it is asked for.

namespace warmring {

// One channel to a server. Thread-safe.
class ServerApi {
 public:
  explicit ServerApi(const std::string& address);

  // Calls a unary method: Call(&KeyspaceService::Stub::Locate, request, keyspaces()).
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, Stub& stub) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    context.AddMetadata("x-warmring-author", "tester");
    Response response;
    const absl::Status status = wire::FromGrpcStatus((stub.*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

  absl::StatusOr<v1::CreateKeyspaceResponse> Create(const v1::CreateKeyspaceRequest& request);
  absl::StatusOr<v1::Keyspace> Get(const std::string& keyspace);
  absl::StatusOr<v1::ListNodesResponse> Nodes(const std::string& keyspace);
  absl::StatusOr<v1::SubmitMigrationResponse> Submit(const v1::SubmitMigrationRequest& request);
  absl::StatusOr<v1::Migration> Migration(const std::string& keyspace, const std::string& id);
  absl::StatusOr<v1::Migration> Abort(const std::string& keyspace, const std::string& id);
  absl::StatusOr<v1::Migration> Undo(const std::string& keyspace, const std::string& id);

  v1::KeyspaceService::Stub& keyspaces() { return *keyspaces_; }
  v1::MigrationService::Stub& migrations() { return *migrations_; }
  v1::WatchService::Stub& watch() { return *watch_; }
  v1::OwnerService::Stub& owners() { return *owners_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::KeyspaceService::Stub> keyspaces_;
  std::unique_ptr<v1::MigrationService::Stub> migrations_;
  std::unique_ptr<v1::WatchService::Stub> watch_;
  std::unique_ptr<v1::OwnerService::Stub> owners_;
};

// Nodes "cache-1" .. "cache-<count>" of a keyspace "sessions".
v1::CreateKeyspaceRequest CreateRequest(int count, v1::PlacementKind placement);
v1::Node MakeNode(const std::string& id);
// Adds `node` in two waves, with next to no holds, a soak of `soak`.
v1::SubmitMigrationRequest AddNodeRequest(const std::string& node, absl::Duration soak);

// An owner that holds no keys: keeps its session, over restarts of the server too, says that it has
// applied what it is granted, and reports every task as done. Thread-safe.
class ScriptedOwner {
 public:
  struct Options {
    std::string address;
    std::string keyspace = "sessions";
    std::string node;
    uint64_t incarnation = 0;  // 0: random
    // Whether a task is answered; all are without it.
    std::function<bool(const v1::Task&)> answers;
  };
  explicit ScriptedOwner(Options options);
  ~ScriptedOwner();

  // How many grants and welcomes it has received, over all streams.
  int grants() const { return grants_; }
  int welcomes() const { return welcomes_; }
  uint64_t term() const { return term_; }
  absl::Status last_status() const;

 private:
  using Stream = grpc::ClientReaderWriterInterface<v1::SessionRequest, v1::SessionResponse>;

  void Run();
  void Serve(ServerApi& api);
  void RenewUntilDone(Stream& stream, const std::atomic<bool>& done);
  void Answer(Stream& stream, const v1::TaskList& tasks);
  void Write(Stream& stream, const v1::SessionRequest& request);

  const Options options_;
  const std::string incarnation_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> grants_ = 0;
  std::atomic<int> welcomes_ = 0;
  std::atomic<uint64_t> term_ = 0;
  std::atomic<uint64_t> applied_ = 0;
  mutable std::mutex mutex_;
  std::mutex write_mutex_;
  absl::Status last_status_;                // guarded by mutex_
  grpc::ClientContext* context_ = nullptr;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace warmring
