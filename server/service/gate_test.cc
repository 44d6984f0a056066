// Under a policy that allows nothing, every method of every service refuses, before it does
// anything: the services here have nothing behind them that they could use.

#include "server/service/gate.h"

#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "core/base/reason.h"
#include "gtest/gtest.h"
#include "proto/wire/status.h"
#include "server/service/keyspace_service.h"
#include "server/service/migration_service.h"
#include "server/service/owner_service.h"
#include "server/service/watch_service.h"

namespace warmring {
namespace {

class NothingAllowed final : public Authoriser {
 public:
  absl::Status Check(const Caller& caller, std::string_view method,
                     std::string_view) const override {
    return absl::PermissionDeniedError(caller.identity + " may not " + std::string(method));
  }
};

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    KeyspaceService::Environment keyspaces;
    keyspaces.gate = &gate_;
    keyspace_service_ = std::make_unique<KeyspaceService>(keyspaces);
    MigrationService::Environment migrations;
    migrations.gate = &gate_;
    migration_service_ = std::make_unique<MigrationService>(migrations);
    watch_service_ = std::make_unique<WatchService>(&gate_, nullptr);
    owner_service_ = std::make_unique<OwnerService>(&gate_, nullptr);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(keyspace_service_.get());
    builder.RegisterService(migration_service_.get());
    watch_service_->Register(builder);
    owner_service_->Register(builder);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }
  ~GateTest() override {
    server_->Shutdown();
    server_->Wait();
    owner_service_->Stop();
  }

  // Begins the call with an empty message and reads how it ends.
  grpc::Status Call(const std::string& path) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, path, &queue);
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
    };
    call->StartCall(nullptr);
    wait();
    const grpc::Slice nothing;
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    wait();
    grpc::Status status;
    call->Finish(&status, nullptr);
    wait();
    return status;
  }

  NothingAllowed nothing_allowed_;
  Gate gate_{&nothing_allowed_};
  std::unique_ptr<KeyspaceService> keyspace_service_;
  std::unique_ptr<MigrationService> migration_service_;
  std::unique_ptr<WatchService> watch_service_;
  std::unique_ptr<OwnerService> owner_service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(GateTest, EveryMethodPassesIt) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  int methods = 0;
  for (const char* name : {"KeyspaceService", "MigrationService", "WatchService", "OwnerService"}) {
    const auto* service = pool->FindServiceByName(std::string("warmring.v1.") + name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const std::string method = std::string(name) + "/" + service->method(i)->name();
      const absl::Status status = wire::FromGrpcStatus(Call("/warmring.v1." + method));
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << method << ": " << status;
      EXPECT_EQ(std::string(status.message()), "dev may not " + method);
      EXPECT_EQ(ReasonNameOf(status), "NOT_ALLOWED") << method;
    }
  }
  EXPECT_GE(methods, 18);
}

// What gRPC itself answers: nothing behind a path that is not exactly a method's.
TEST_F(GateTest, OtherPathsLeadNowhere) {
  for (const char* path :
       {"/warmring.v1.KeyspaceService/Nope", "warmring.v1.KeyspaceService/Locate",
        "//warmring.v1.KeyspaceService/Locate", "/warmring.v1.KeyspaceService/Locate/",
        "/WARMRING.V1.KEYSPACESERVICE/LOCATE", "/warmring.v1.KeyspaceService/Locate?x",
        "/warmring.v1.KeyspaceService%2fLocate"}) {
    EXPECT_EQ(Call(path).error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
  }
}

}  // namespace
}  // namespace warmring
