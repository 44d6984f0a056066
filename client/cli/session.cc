#include "client/cli/session.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/ids.h"
#include "core/base/reason.h"
#include "google/protobuf/util/json_util.h"
#include "proto/wire/status.h"

namespace warmring::cli {
namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(2);
constexpr auto kCallTimeout = std::chrono::seconds(30);

std::string Author() {
  const char* user = std::getenv("USER");
  return user == nullptr ? "unknown" : Printable(user, 64);
}

}  // namespace

absl::Status Session::Connect() {
  std::string tried;
  for (const std::string& endpoint : flags_.endpoints) {
    auto channel = grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials());
    if (channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) {
      keyspaces_ = v1::KeyspaceService::NewStub(channel);
      migrations_ = v1::MigrationService::NewStub(channel);
      return absl::OkStatus();
    }
    tried += (tried.empty() ? "" : ", ") + Printable(endpoint);
  }
  return absl::UnavailableError(fmt::format(
      "no server answers at {}: start warmringd there, or name another with --endpoints or "
      "WARMRING_ENDPOINTS",
      tried));
}

std::unique_ptr<grpc::ClientContext> Session::Call() const {
  auto context = Stream();
  context->set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  return context;
}

std::unique_ptr<grpc::ClientContext> Session::Stream() const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->AddMetadata("x-warmring-author", Author());
  return context;
}

absl::StatusOr<std::string> Session::Keyspace() {
  if (!flags_.keyspace.empty()) return flags_.keyspace;
  v1::ListKeyspacesRequest request;
  v1::ListKeyspacesResponse response;
  const grpc::Status status = keyspaces_->ListKeyspaces(Call().get(), request, &response);
  if (!status.ok()) return wire::FromGrpcStatus(status);
  if (response.keyspaces_size() == 1) return response.keyspaces(0).spec().id();
  if (response.keyspaces().empty()) {
    return absl::NotFoundError(
        "there is no keyspace yet: create one with warmring keyspace create");
  }
  std::string names;
  for (const auto& k : response.keyspaces()) names += (names.empty() ? "" : ", ") + k.spec().id();
  return absl::InvalidArgumentError(
      fmt::format("--keyspace: which one? There are {} (-k NAME)", names));
}

ExitCode Session::Fail(const absl::Status& status) const {
  if (json()) {
    nlohmann::json error = {{"code", ReasonNameOf(status)}};
    if (error["code"].get<std::string>().empty()) {
      error["code"] = absl::StatusCodeToString(status.code());
    }
    error["message"] = std::string(status.message().data(), status.message().size());
    std::cerr << nlohmann::json{{"error", error}}.dump() << "\n";
  } else {
    std::cerr << "warmring: " << std::string(status.message().data(), status.message().size())
              << "\n";
  }
  return ExitCodeOf(status);
}

ExitCode Session::Fail(const grpc::Status& status) const {
  return Fail(wire::FromGrpcStatus(status));
}

ExitCode Session::Usage(const std::string& message) const {
  Fail(absl::InvalidArgumentError(message));
  return ExitCode::kUsage;
}

bool Session::Confirm(const std::string& question, ExitCode* code) const {
  *code = ExitCode::kDone;
  if (flags_.yes) return true;
  if (flags_.no_input || isatty(STDIN_FILENO) == 0) {
    *code = Usage("an answer is needed and there is no terminal: give --yes to go on");
    return false;
  }
  std::cout << question << " Only 'yes' will be accepted: " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "yes") return true;
  std::cout << "Nothing was changed.\n";
  *code = ExitCode::kUsage;
  return false;
}

void Session::PrintJson(const google::protobuf::Message& message) const {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    std::cout << text;
  }
}

}  // namespace warmring::cli
