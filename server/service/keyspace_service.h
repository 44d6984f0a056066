#pragma once

#include <cstdint>
#include <functional>

#include "server/conductor/keyspace_runtime.h"
#include "server/executor/clock.h"
#include "server/registry/registry.h"
#include "server/service/balance_cache.h"
#include "server/service/gate.h"
#include "server/service/request_log.h"
#include "server/store/committer.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"

namespace warmring {

// warmring.v1.KeyspaceService: decode, enter the gate, call, encode. Any thread; nothing blocks.
class KeyspaceService final : public v1::KeyspaceService::CallbackService {
 public:
  struct Environment {
    const Gate* gate = nullptr;
    Registry* registry = nullptr;
    KeyspaceRuntimes* runtimes = nullptr;
    Committer* committer = nullptr;
    Executor* creation_strand = nullptr;  // one creation at a time
    const Clock* clock = nullptr;
    RequestLog* requests = nullptr;
    std::function<uint32_t(const KeyspaceId&)> watchers;  // any thread
  };
  explicit KeyspaceService(Environment environment) : env_(std::move(environment)) {}

  grpc::ServerUnaryReactor* CreateKeyspace(grpc::CallbackServerContext* context,
                                           const v1::CreateKeyspaceRequest* request,
                                           v1::CreateKeyspaceResponse* response) override;
  grpc::ServerUnaryReactor* GetKeyspace(grpc::CallbackServerContext* context,
                                        const v1::GetKeyspaceRequest* request,
                                        v1::GetKeyspaceResponse* response) override;
  grpc::ServerUnaryReactor* ListKeyspaces(grpc::CallbackServerContext* context,
                                          const v1::ListKeyspacesRequest* request,
                                          v1::ListKeyspacesResponse* response) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;
  grpc::ServerUnaryReactor* GetMembership(grpc::CallbackServerContext* context,
                                          const v1::GetMembershipRequest* request,
                                          v1::GetMembershipResponse* response) override;
  grpc::ServerUnaryReactor* ListVersions(grpc::CallbackServerContext* context,
                                         const v1::ListVersionsRequest* request,
                                         v1::ListVersionsResponse* response) override;
  grpc::ServerUnaryReactor* GrowDirectory(grpc::CallbackServerContext* context,
                                          const v1::GrowDirectoryRequest* request,
                                          v1::GrowDirectoryResponse* response) override;
  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const v1::LocateRequest* request,
                                   v1::LocateResponse* response) override;

 private:
  struct Creation;
  void Create(std::shared_ptr<Creation> creation);
  void OnCreated(const std::shared_ptr<Creation>& creation, const HeadChange& change,
                 const CommitResult& result);
  // `active` is the migration that has not ended.
  v1::Keyspace Describe(const Keyspace& keyspace, const std::vector<MigrationId>& active) const;
  v1::Keyspace Describe(const Membership::Ptr& membership,
                        const std::vector<MigrationId>& active) const;
  void DescribeAll(std::vector<KeyspaceRuntime*> runtimes, size_t next,
                   v1::ListKeyspacesResponse* response, grpc::ServerUnaryReactor* reactor) const;

  const Environment env_;
  mutable BalanceCache balances_;
};

}  // namespace warmring
