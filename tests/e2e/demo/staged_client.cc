#include "tests/e2e/demo/staged_client.h"

#include <optional>

#include "core/base/status_macros.h"

namespace warmring::demo {
namespace {

const absl::Duration kTimeout = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<StagedClient>> StagedClient::Connect(const std::string& server,
                                                                    const std::string& keyspace,
                                                                    Origin* origin, int ttl_ms) {
  std::unique_ptr<StagedClient> staged(new StagedClient(origin, ttl_ms));
  ClientOptions options;
  options.endpoints = {server};
  options.keyspace = keyspace;
  options.client_name = "demo";
  options.max_connections_per_node = 64;
  ASSIGN_OR_RETURN(staged->client_, Client::Connect(options));
  LoaderOptions loader;
  loader.ttl = absl::Milliseconds(ttl_ms);
  loader.origin_when_unreachable = false;  // a node that cannot be reached counts as an error here
  ASSIGN_OR_RETURN(staged->loader_,
                   Loader::Create(
                       staged->client_.get(),
                       [origin](std::string_view key,
                                absl::Duration) -> absl::StatusOr<std::optional<std::string>> {
                         ASSIGN_OR_RETURN(std::string value, origin->Fetch(std::string(key)));
                         return value;
                       },
                       loader));
  return staged;
}

absl::StatusOr<std::string> StagedClient::Read(const std::string& key) {
  ASSIGN_OR_RETURN(std::optional<std::string> value, loader_->Get(key, kTimeout));
  if (!value) return absl::NotFoundError("no such key at the origin");
  return *std::move(value);
}

absl::Status StagedClient::Write(const std::string& key, const std::string& value, bool keep) {
  RETURN_IF_ERROR(origin_->Store(key, value));
  if (keep) return Put(key, value, ttl_ms_);
  return loader_->Delete(key, kTimeout);
}

absl::Status StagedClient::Put(const std::string& key, const std::string& value, int ttl_ms) {
  return loader_->Set(key, value, absl::Milliseconds(ttl_ms), kTimeout);
}

}  // namespace warmring::demo
