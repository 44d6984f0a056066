#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/exit_code.h"
#include "grpcpp/grpcpp.h"
#include "warmring/v1/keyspace_service.grpc.pb.h"
#include "warmring/v1/migration_service.grpc.pb.h"

namespace warmring::cli {

enum class Output { kTable, kJson };

// The flags that every verb takes.
struct GlobalFlags {
  std::vector<std::string> endpoints = {"127.0.0.1:7420"};
  std::string keyspace;
  Output output = Output::kTable;
  bool yes = false;
  bool no_input = false;
  double timeout_seconds = 0;  // of waiting; 0 = for ever
  std::string request_id;
  std::string reason;
  bool no_color = false;
};

// One run of the command: flags, the connection to a server, and how to end. Verbs return the exit
// code; everything that is refused goes through Fail, so that -o json has its errors in JSON too.
class Session {
 public:
  explicit Session(const GlobalFlags& flags) : flags_(flags) {}

  const GlobalFlags& flags() const { return flags_; }
  bool json() const { return flags_.output == Output::kJson; }

  // Connects to the first endpoint that answers. Error: Unavailable naming what was tried.
  absl::Status Connect();
  v1::KeyspaceService::Stub& keyspaces() { return *keyspaces_; }
  v1::MigrationService::Stub& migrations() { return *migrations_; }
  // A context with the deadline of one call and the author's name in its metadata.
  std::unique_ptr<grpc::ClientContext> Call() const;
  // A context without deadline, for a stream.
  std::unique_ptr<grpc::ClientContext> Stream() const;

  // The keyspace of -k, or the only one that exists. Error: InvalidArgument listing them.
  absl::StatusOr<std::string> Keyspace();

  // Prints the error to stderr (as JSON under -o json) and gives its exit code.
  ExitCode Fail(const absl::Status& status) const;
  ExitCode Fail(const grpc::Status& status) const;
  ExitCode Usage(const std::string& message) const;

  // Asks on the terminal; only "yes" is a yes. Without a terminal and without --yes: no, with the
  // reason on stderr and `*code` = kUsage.
  bool Confirm(const std::string& question, ExitCode* code) const;

  void PrintJson(const google::protobuf::Message& message) const;

 private:
  GlobalFlags flags_;
  std::unique_ptr<v1::KeyspaceService::Stub> keyspaces_;
  std::unique_ptr<v1::MigrationService::Stub> migrations_;
};

}  // namespace warmring::cli
