#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "server/conductor/keyspace_runtime.h"
#include "server/service/gate.h"
#include "server/service/request_log.h"
#include "warmring/v1/migration_service.grpc.pb.h"

namespace warmring {

// warmring.v1.MigrationService: decode, enter the gate, call the keyspace's conductor on its
// strand, encode. Any thread; nothing blocks.
class MigrationService final : public v1::MigrationService::CallbackService {
 public:
  struct Environment {
    const Gate* gate = nullptr;
    KeyspaceRuntimes* runtimes = nullptr;
    RequestLog* requests = nullptr;
  };
  explicit MigrationService(Environment environment);

  // Ends every WatchMigration with UNAVAILABLE; before the server shuts down.
  void EndWatches();

  grpc::ServerUnaryReactor* SubmitMigration(grpc::CallbackServerContext* context,
                                            const v1::SubmitMigrationRequest* request,
                                            v1::SubmitMigrationResponse* response) override;
  grpc::ServerUnaryReactor* GetMigration(grpc::CallbackServerContext* context,
                                         const v1::GetMigrationRequest* request,
                                         v1::GetMigrationResponse* response) override;
  grpc::ServerUnaryReactor* ListMigrations(grpc::CallbackServerContext* context,
                                           const v1::ListMigrationsRequest* request,
                                           v1::ListMigrationsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchMigrationResponse>* WatchMigration(
      grpc::CallbackServerContext* context, const v1::WatchMigrationRequest* request) override;
  grpc::ServerUnaryReactor* PromoteMigration(grpc::CallbackServerContext* context,
                                             const v1::PromoteMigrationRequest* request,
                                             v1::PromoteMigrationResponse* response) override;
  grpc::ServerUnaryReactor* PauseMigration(grpc::CallbackServerContext* context,
                                           const v1::PauseMigrationRequest* request,
                                           v1::PauseMigrationResponse* response) override;
  grpc::ServerUnaryReactor* ResumeMigration(grpc::CallbackServerContext* context,
                                            const v1::ResumeMigrationRequest* request,
                                            v1::ResumeMigrationResponse* response) override;
  grpc::ServerUnaryReactor* AbortMigration(grpc::CallbackServerContext* context,
                                           const v1::AbortMigrationRequest* request,
                                           v1::AbortMigrationResponse* response) override;
  grpc::ServerUnaryReactor* UndoMigration(grpc::CallbackServerContext* context,
                                          const v1::UndoMigrationRequest* request,
                                          v1::UndoMigrationResponse* response) override;

  grpc::ServerUnaryReactor* ForceFence(grpc::CallbackServerContext* context,
                                       const v1::ForceFenceRequest* request,
                                       v1::ForceFenceResponse* response) override;

  class WatchStream;
  // Streams that are open now.
  class WatchSet {
   public:
    void Add(std::shared_ptr<WatchStream> stream);
    void Remove(const std::shared_ptr<WatchStream>& stream);
    std::set<std::shared_ptr<WatchStream>> TakeAll();

   private:
    std::mutex mutex_;
    std::set<std::shared_ptr<WatchStream>> streams_;
  };

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Command(grpc::CallbackServerContext* context, const Request* request,
                                    Response* response, const char* method,
                                    OperatorCommand command);
  template <typename Request, typename Response, typename Asker>
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const Request* request,
                                Response* response, const char* method, Asker ask);

  const Environment env_;
  WatchSet watches_;
};

}  // namespace warmring
