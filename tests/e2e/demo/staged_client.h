#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/e2e/demo/cache_client.h"
#include "tests/e2e/demo/origin.h"
#include "warmring/client.h"
#include "warmring/loader.h"

namespace warmring::demo {

// The load's cache through the SDK. Thread-safe.
class StagedClient : public CacheClient {
 public:
  // Errors: those of Client::Connect.
  static absl::StatusOr<std::unique_ptr<StagedClient>> Connect(const std::string& server,
                                                               const std::string& keyspace,
                                                               Origin* origin, int ttl_ms);

  absl::StatusOr<std::string> Read(const std::string& key) override;
  absl::Status Write(const std::string& key, const std::string& value, bool keep) override;

  // Puts a value with this life into the cache, for prefilling.
  absl::Status Put(const std::string& key, const std::string& value, int ttl_ms);
  LoaderStats Stats() const { return loader_->Stats(); }
  const Router& router() const { return client_->router(); }

 private:
  StagedClient(Origin* origin, int ttl_ms) : origin_(origin), ttl_ms_(ttl_ms) {}

  Origin* origin_;
  const int ttl_ms_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace warmring::demo
