#include "server/server.h"

#include <chrono>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include "core/base/status_macros.h"
#include "core/membership/node.h"
#include "server/auth/authoriser.h"
#include "server/conductor/keyspace_runtime.h"
#include "server/executor/clock.h"
#include "server/executor/thread_pool.h"
#include "server/registry/registry.h"
#include "server/service/gate.h"
#include "server/service/keyspace_service.h"
#include "server/service/migration_service.h"
#include "server/service/owner_service.h"
#include "server/service/request_log.h"
#include "server/service/watch_service.h"
#include "server/store/committer.h"
#include "server/store/rocksdb/rocksdb_store.h"
#include "server/watch/watch_hub.h"

namespace warmring {
namespace {

constexpr int kThreads = 2;
constexpr int kMaxMessageBytes = 4 * 1024 * 1024;
constexpr int kMaxMetadataBytes = 8 * 1024;
constexpr int kMaxStreamsPerConnection = 1024;
constexpr size_t kDeltasAtStart = 256;  // so many steps behind, a watcher resumes over a restart

// Random 128-bit names: histories, nonces, ids. Any thread.
class RandomIds {
 public:
  Id128 Next() {
    std::lock_guard lock(mutex_);
    const auto word = [this] { return (uint64_t{device_()} << 32) | device_(); };
    Id128 id;
    id.high = word();
    id.low = word();
    return id;
  }

 private:
  std::mutex mutex_;
  std::random_device device_;
};

// Committed versions go to the hub.
class HubPublisher final : public Publisher {
 public:
  explicit HubPublisher(WatchHub* hub) : hub_(hub) {}
  void Publish(const Membership::Ptr& membership, const std::optional<Delta>& delta) override {
    if (delta) {
      hub_->Publish(membership, *delta);
    } else {
      hub_->Open(membership, {});
    }
  }

 private:
  WatchHub* const hub_;
};

class RunningServer final : public Server {
 public:
  explicit RunningServer(const ServerOptions& options) : options_(options) {}
  ~RunningServer() override { Shutdown(absl::Seconds(1)); }

  absl::Status Start();
  std::string address() const override { return address_; }
  void Shutdown(absl::Duration grace) override;

 private:
  absl::Status OpenStore();
  absl::Status LoadKeyspaces();
  void MakeServices();
  absl::Status Listen();

  const ServerOptions options_;
  std::string address_;
  SystemClock clock_;
  RandomIds random_;
  std::unique_ptr<Authoriser> authoriser_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<RocksDbStore> store_;
  ThreadPool pool_{kThreads, &clock_};
  // Store calls block: they have a thread of their own.
  ThreadPool store_pool_{1, &clock_};
  std::unique_ptr<Executor> store_strand_ = store_pool_.MakeStrand();
  std::unique_ptr<Executor> hub_strand_ = pool_.MakeStrand();
  std::unique_ptr<Executor> creation_strand_ = pool_.MakeStrand();
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Registry> registry_;
  WatchHub hub_{&clock_, hub_strand_.get()};
  HubPublisher publisher_{&hub_};
  std::unique_ptr<KeyspaceRuntimes> runtimes_;
  std::unique_ptr<RequestLog> requests_;
  std::unique_ptr<KeyspaceService> keyspace_service_;
  std::unique_ptr<MigrationService> migration_service_;
  std::unique_ptr<WatchService> watch_service_;
  std::unique_ptr<OwnerService> owner_service_;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status RunningServer::OpenStore() {
  ASSIGN_OR_RETURN(authoriser_, MakeAuthoriser(options_.dev, options_.listen, options_.dev_roles));
  gate_ = std::make_unique<Gate>(authoriser_.get());
  ASSIGN_OR_RETURN(store_, RocksDbStore::Open(options_.data_dir));
  HistoryId fresh;
  static_cast<Id128&>(fresh) = random_.Next();
  ASSIGN_OR_RETURN(StoreIdentity identity, BeginTerm(*store_, fresh));
  RETURN_IF_ERROR(RequestLog::Sweep(*store_, clock_.Wall()));
  committer_ =
      std::make_unique<Committer>(store_.get(), store_strand_.get(), StopAfterStoreFailure);
  registry_ = std::make_unique<Registry>(std::move(identity));
  return registry_->Load(*store_);
}

absl::Status RunningServer::LoadKeyspaces() {
  for (Keyspace* keyspace : registry_->All()) {
    ASSIGN_OR_RETURN(const std::vector<Delta> recent,
                     keyspace->LatestDeltas(*store_, kDeltasAtStart));
    hub_.Open(keyspace->head()->membership, recent);
  }
  KeyspaceRuntime::Environment environment;
  environment.identity = registry_->identity();
  environment.committer = committer_.get();
  environment.pool = &pool_;
  environment.clock = &clock_;
  environment.publisher = &publisher_;
  environment.lease = options_.lease;
  environment.random = [this] { return random_.Next(); };
  runtimes_ = std::make_unique<KeyspaceRuntimes>(registry_.get(), environment);
  RETURN_IF_ERROR(runtimes_->LoadAll(*store_));
  hub_.Start();
  return absl::OkStatus();
}

void RunningServer::MakeServices() {
  requests_ = std::make_unique<RequestLog>(committer_.get(), &clock_, registry_->identity().term);
  KeyspaceService::Environment keyspaces;
  keyspaces.gate = gate_.get();
  keyspaces.registry = registry_.get();
  keyspaces.runtimes = runtimes_.get();
  keyspaces.committer = committer_.get();
  keyspaces.creation_strand = creation_strand_.get();
  keyspaces.clock = &clock_;
  keyspaces.requests = requests_.get();
  keyspaces.watchers = [this](const KeyspaceId& id) { return hub_.Watchers(id); };
  keyspace_service_ = std::make_unique<KeyspaceService>(keyspaces);
  migration_service_ = std::make_unique<MigrationService>(
      MigrationService::Environment{gate_.get(), runtimes_.get(), requests_.get()});
  watch_service_ = std::make_unique<WatchService>(gate_.get(), &hub_);
  owner_service_ = std::make_unique<OwnerService>(gate_.get(), runtimes_.get());
}

absl::Status RunningServer::Listen() {
  RETURN_IF_ERROR(options_.listen.ends_with(":0") ? absl::OkStatus()
                                                  : ValidateAddress("--listen", options_.listen));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A second server on the same port must fail instead of taking a part of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  // A small compressed message may be huge: nobody needs it here.
  for (int i = GRPC_COMPRESS_NONE + 1; i < GRPC_COMPRESS_ALGORITHMS_COUNT; ++i) {
    builder.SetCompressionAlgorithmSupportStatus(static_cast<grpc_compression_algorithm>(i), false);
  }
  builder.RegisterService(keyspace_service_.get());
  builder.RegisterService(migration_service_.get());
  watch_service_->Register(builder);
  owner_service_->Register(builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(fmt::format(
        "--listen: {} cannot be listened on: another process may have the port; choose another",
        options_.listen));
  }
  address_ = options_.listen.substr(0, options_.listen.rfind(':') + 1) + std::to_string(port);
  return absl::OkStatus();
}

absl::Status RunningServer::Start() {
  RETURN_IF_ERROR(OpenStore());
  RETURN_IF_ERROR(LoadKeyspaces());
  MakeServices();
  return Listen();
}

void RunningServer::Shutdown(absl::Duration grace) {
  if (server_ != nullptr) {
    migration_service_->EndWatches();
    watch_service_->EndStreams();
    owner_service_->EndStreams();
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::milliseconds(absl::ToInt64Milliseconds(grace)));
    server_->Wait();
    owner_service_->Stop();
    server_.reset();
  }
  // Nothing calls in any more; what is on the strands ends before the objects do.
  pool_.Stop();
  store_pool_.Stop();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto server = std::make_unique<RunningServer>(options);
  RETURN_IF_ERROR(server->Start());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace warmring
