#include <filesystem>
#include <memory>
#include <string>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/binary.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/warmringd_server.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"

// The story: a process ends while the client library has half a membership, of the network or on
// the disk. The next one begins with a whole one, or with none.

namespace warmring::crash {
namespace {

// A snapshot of more than one piece.
constexpr uint32_t kDirectoryBits = 19;
constexpr absl::Duration kWithin = absl::Seconds(60);

class CrashClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, support::TempDir::Create("crash-client"));
    ASSERT_OK_AND_ASSIGN(server_, support::WarmringdServer::Start());
    const auto stub = v1::KeyspaceService::NewStub(
        grpc::CreateChannel(server_->Address(), grpc::InsecureChannelCredentials()));
    v1::CreateKeyspaceRequest request;
    request.mutable_spec()->set_id("large");
    request.mutable_spec()->set_directory_bits(kDirectoryBits);
    for (int i = 0; i < 3; ++i) {
      v1::Node& node = *request.add_nodes();
      node.set_id(fmt::format("node-{}", i));
      node.set_address(fmt::format("127.0.0.1:{}", 7000 + i));
    }
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kWithin));
    v1::CreateKeyspaceResponse response;
    const grpc::Status created = stub->CreateKeyspace(&context, request, &response);
    ASSERT_TRUE(created.ok()) << created.error_message();
  }

  // How a client ends.
  absl::StatusOr<support::ExitStatus> Run(const std::string& failpoints) {
    support::ProcessOptions options;
    ASSIGN_OR_RETURN(std::string binary, support::BinaryPath("crash_client"));
    options.argv = {std::move(binary), server_->Address(), "large", CacheFile()};
    options.log_path = dir_->File("client.log");
    if (!failpoints.empty()) options.env = {{"WARMRING_FAILPOINTS", failpoints}};
    ASSIGN_OR_RETURN(const auto process, support::Process::Start(std::move(options)));
    return process->Wait(kWithin);
  }
  std::string CacheFile() const { return dir_->File("membership"); }

  std::unique_ptr<support::TempDir> dir_;
  std::unique_ptr<support::WarmringdServer> server_;
};

TEST_F(CrashClientTest, HalfAMembershipIsNone) {
  ASSERT_OK_AND_ASSIGN(support::ExitStatus ended, Run("snapshot.half=exit"));
  EXPECT_EQ(ended.code, 137) << ended.Describe();
  EXPECT_FALSE(std::filesystem::exists(CacheFile()));
  ASSERT_OK_AND_ASSIGN(ended, Run("cache.half=exit"));
  EXPECT_EQ(ended.code, 137) << ended.Describe();
  EXPECT_FALSE(std::filesystem::exists(CacheFile()));
  ASSERT_OK_AND_ASSIGN(ended, Run(""));
  EXPECT_TRUE(ended.Succeeded()) << ended.Describe();
  // A whole one is there by now, and serves while nobody else does.
  server_->Kill9();
  ASSERT_OK_AND_ASSIGN(ended, Run(""));
  EXPECT_TRUE(ended.Succeeded()) << ended.Describe();
}

}  // namespace
}  // namespace warmring::crash
