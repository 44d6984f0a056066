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
constexpr std::chrono::milliseconds kOriginLatency(6);

// A process that uses the client library.
struct Instance {
  std::unique_ptr<Client> client;  // outlives the loader
  std::unique_ptr<Loader> loader;
};

// One instance reads and another one writes, as in an application of several processes: neither
// knows what the other one does but from the owners.
class SdkCache : public Cache {
 public:
  SdkCache(Instance reader, Instance writer)
      : reader_(std::move(reader)), writer_(std::move(writer)) {}

  absl::StatusOr<std::string> Read(const std::string& key) override {
    ASSIGN_OR_RETURN(std::optional<std::string> value, reader_.loader->Get(key, kTimeout));
    if (!value.has_value()) return absl::NotFoundError(fmt::format("{} has no value", key));
    return *std::move(value);
  }
  absl::Status Set(const std::string& key, const std::string& value) override {
    return writer_.loader->Set(key, value, absl::ZeroDuration(), kTimeout);
  }
  absl::Status Delete(const std::string& key) override {
    return writer_.loader->Delete(key, kTimeout);
  }

  std::string Describe() const override {
    return fmt::format("reader: {}; writer: {}", DescribeStats(reader_.loader->Stats()),
                       DescribeStats(writer_.loader->Stats()));
  }

 private:
  static std::string DescribeStats(const LoaderStats& stats) {
    return fmt::format(
        "{} hits, {} misses, {} from the origin ({} direct), {} in grace, {} fills void; refused: "
        "{} stale, {} moved, {} fencing, {} without a lease, {} behind",
        stats.hits, stats.misses, stats.origin_fills, stats.origin_direct, stats.grace_hits,
        stats.fills_void, stats.refused_stale, stats.refused_moved, stats.refused_fencing,
        stats.refused_no_lease, stats.refused_behind);
  }

  const Instance reader_;
  const Instance writer_;
};

absl::StatusOr<Instance> StartInstance(const std::string& server, const KeyspaceId& keyspace,
                                       std::string name, const Ledger* origin) {
  ClientOptions options;
  options.endpoints = {server};
  options.keyspace = keyspace;
  options.client_name = std::move(name);
  options.connect_timeout = absl::Seconds(20);
  Instance instance;
  ASSIGN_OR_RETURN(instance.client, Client::Connect(std::move(options)));
  const auto read = [origin](std::string_view key,
                             absl::Duration) -> absl::StatusOr<std::optional<std::string>> {
    std::optional<std::string> value = origin->Origin(key);
    std::this_thread::sleep_for(kOriginLatency);
    return value;
  };
  ASSIGN_OR_RETURN(instance.loader, Loader::Create(instance.client.get(), read));
  return instance;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cache>> StartSdkCache(const std::string& server,
                                                     const KeyspaceId& keyspace,
                                                     const Ledger* origin) {
  ASSIGN_OR_RETURN(Instance reader, StartInstance(server, keyspace, "reader", origin));
  ASSIGN_OR_RETURN(Instance writer, StartInstance(server, keyspace, "writer", origin));
  return std::make_unique<SdkCache>(std::move(reader), std::move(writer));
}

}  // namespace warmring::crash
