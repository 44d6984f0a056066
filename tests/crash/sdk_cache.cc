#include "tests/crash/sdk_cache.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "warmring/client.h"
#include "warmring/loader.h"

namespace warmring::crash {
namespace {

// Short enough that a pause of the traffic is not waited for long.
constexpr absl::Duration kTimeout = absl::Seconds(2);
// A real origin takes its time, and what it says may be old when it arrives.
constexpr std::chrono::milliseconds kOriginLatency(2);

class SdkCache : public Cache {
 public:
  SdkCache(std::unique_ptr<Client> client, std::unique_ptr<Loader> loader)
      : client_(std::move(client)), loader_(std::move(loader)) {}

  absl::StatusOr<std::string> Read(const std::string& key) override {
    ASSIGN_OR_RETURN(std::optional<std::string> value, loader_->Get(key, kTimeout));
    if (!value.has_value()) return absl::NotFoundError(fmt::format("{} has no value", key));
    return *std::move(value);
  }
  absl::Status Set(const std::string& key, const std::string& value) override {
    return loader_->Set(key, value, absl::ZeroDuration(), kTimeout);
  }
  absl::Status Delete(const std::string& key) override { return loader_->Delete(key, kTimeout); }

  std::string Describe() const override {
    const LoaderStats stats = loader_->Stats();
    return fmt::format(
        "{} hits, {} misses, {} from the origin ({} direct), {} in grace, {} fills void; refused: "
        "{} stale, {} moved, {} fencing, {} without a lease, {} behind",
        stats.hits, stats.misses, stats.origin_fills, stats.origin_direct, stats.grace_hits,
        stats.fills_void, stats.refused_stale, stats.refused_moved, stats.refused_fencing,
        stats.refused_no_lease, stats.refused_behind);
  }

 private:
  const std::unique_ptr<Client> client_;  // outlives the loader
  const std::unique_ptr<Loader> loader_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cache>> StartSdkCache(const std::string& server,
                                                     const KeyspaceId& keyspace,
                                                     const Ledger* origin) {
  ClientOptions options;
  options.endpoints = {server};
  options.keyspace = keyspace;
  options.client_name = "crash-test";
  options.connect_timeout = absl::Seconds(20);
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Connect(std::move(options)));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Loader> loader,
      Loader::Create(client.get(),
                     [origin](std::string_view key,
                              absl::Duration) -> absl::StatusOr<std::optional<std::string>> {
                       std::optional<std::string> value = origin->Origin(key);
                       std::this_thread::sleep_for(kOriginLatency);
                       return value;
                     }));
  return std::make_unique<SdkCache>(std::move(client), std::move(loader));
}

}  // namespace warmring::crash
