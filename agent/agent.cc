#include "agent/agent.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/engine/redis_engine.h"
#include "agent/notice.h"
#include "agent/owner_link.h"
#include "agent/releaser.h"
#include "agent/task_runner.h"
#include "agent/transfer/pull_dialer.h"
#include "agent/transfer/transfer_server.h"
#include "client/owner/owner_session.h"
#include "client/sync/membership_watch.h"
#include "core/base/status_macros.h"
#include "core/membership/node.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

constexpr std::chrono::milliseconds kMonitorPeriod(500);

// The host of "host:port", or of "[v6]:port" with its brackets.
std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsWildcard(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "[::]";
}

absl::Status Check(const AgentOptions& options) {
  RETURN_IF_ERROR(ValidateId("--keyspace", options.keyspace));
  RETURN_IF_ERROR(ValidateId("--node", options.node));
  RETURN_IF_ERROR(ValidateAddress("--redis", options.redis));
  for (const std::string& server : options.servers) {
    RETURN_IF_ERROR(ValidateAddress("--server", server));
  }
  if (!options.advertise.empty()) {
    return ValidateAddress("--advertise", options.advertise);
  }
  if (options.listen.find(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("--listen: '{}' is not host:port", Printable(options.listen)));
  }
  if (IsWildcard(HostOf(options.listen))) {
    return absl::InvalidArgumentError(
        fmt::format("--advertise: needed with --listen={}, as nobody can dial that address",
                    Printable(options.listen)));
  }
  return absl::OkStatus();
}

// The parts call each other from their own threads. They are made from the inside out, so that a
// part finds those it calls, and the session, which starts everything, comes last; they are stopped
// from the outside in, and destroyed only when none of them runs any more.
class WiredAgent : public Agent {
 public:
  explicit WiredAgent(const AgentOptions& options)
      : options_(options), engine_(RedisEngineOptions{.address = options.redis}) {}

  ~WiredAgent() override {
    {
      std::lock_guard<std::mutex> lock(session_mutex_);
      ending_ = true;
      ended_.notify_all();
    }
    if (monitor_.joinable()) monitor_.join();
    watch_.reset();
    std::unique_ptr<OwnerSession> session;
    {
      std::lock_guard<std::mutex> lock(session_mutex_);
      session.swap(session_);
    }
    session.reset();
    if (link_) link_->Stop();
    if (runner_) runner_->Stop();
    server_.reset();
  }

  absl::Status Begin() {
    MakeLink();
    MakeRunner();
    RETURN_IF_ERROR(MakeServer());
    link_->SetTransferAddress(transfer_address_);
    RETURN_IF_ERROR(StartSession());

    MembershipWatchOptions watch;
    watch.endpoints = options_.servers;
    watch.keyspace = options_.keyspace;
    watch.client_name = fmt::format("agent of {}", options_.node);
    watch.observer = true;
    ASSIGN_OR_RETURN(
        watch_, MembershipWatch::Start(std::move(watch), [this](const Membership::Ptr& membership) {
          link_->OnMembership(membership);
        }));
    monitor_ = std::thread([this] { Monitor(); });
    return absl::OkStatus();
  }

  const std::string& transfer_address() const override { return transfer_address_; }

 private:
  void MakeLink() {
    ReleaserOptions releaser;
    releaser.node = options_.node;
    releaser_ = std::make_unique<Releaser>(std::move(releaser), &engine_);
    OwnerLinkOptions link;
    link.keyspace = options_.keyspace;
    link.node = options_.node;
    link.data_address = options_.redis;
    // Nothing is installed before the session has attached.
    link_ = std::make_unique<OwnerLink>(std::move(link), &engine_,
                                        [this](const Membership::Ptr& membership) {
                                          releaser_->OnInstalled(membership);
                                          runner_->MembershipChanged();
                                        });
  }

  void MakeRunner() {
    TransferContext context;
    context.keyspace = options_.keyspace;
    context.node = options_.node;
    context.engine = &engine_;
    context.dial = GrpcPullDialer();
    context.membership = [this] { return link_->Installed(); };
    runner_ = std::make_unique<TaskRunner>(
        std::move(context), [this] { Notify(); }, [this] { server_->Nudge(); });
    link_->SetRunner(runner_.get());
  }

  absl::Status MakeServer() {
    TransferServerOptions server;
    server.listen = options_.listen;
    server.keyspace = options_.keyspace;
    server.node = options_.node;
    server.membership = [this] { return link_->Installed(); };
    server.fenced = [this](const MigrationId& migration, const HashRangeSet& ranges) {
      return runner_->Fenced(migration, ranges);
    };
    ASSIGN_OR_RETURN(server_, TransferServer::Start(std::move(server), &engine_));
    transfer_address_ = options_.advertise.empty()
                            ? fmt::format("{}:{}", HostOf(options_.listen), server_->port())
                            : options_.advertise;
    return absl::OkStatus();
  }

  absl::Status StartSession() {
    OwnerSessionOptions options;
    options.endpoints = options_.servers;
    options.keyspace = options_.keyspace;
    options.node = options_.node;
    ASSIGN_OR_RETURN(auto session, OwnerSession::Start(std::move(options), link_.get()));
    std::lock_guard<std::mutex> lock(session_mutex_);
    session_ = std::move(session);
    session_->Notify();  // for what became due before it was here
    return absl::OkStatus();
  }

  // Says once per change what ails the connections to the server.
  void Monitor() {
    Notice session_notice("session with the server");
    Notice watch_notice("watch of the membership");
    std::unique_lock<std::mutex> lock(session_mutex_);
    while (!ended_.wait_for(lock, kMonitorPeriod, [this] { return ending_; })) {
      session_notice.Report(session_->LastStatus());
      watch_notice.Report(watch_->ConnectionStatus());
    }
  }

  void Notify() {
    std::lock_guard<std::mutex> lock(session_mutex_);
    if (session_) session_->Notify();
  }

  const AgentOptions options_;
  RedisEngine engine_;
  std::string transfer_address_;
  std::unique_ptr<Releaser> releaser_;
  std::unique_ptr<OwnerLink> link_;
  std::unique_ptr<TaskRunner> runner_;
  std::unique_ptr<TransferServer> server_;
  std::mutex session_mutex_;
  std::condition_variable ended_;
  bool ending_ = false;                    // guarded by session_mutex_
  std::unique_ptr<OwnerSession> session_;  // guarded by session_mutex_
  std::unique_ptr<MembershipWatch> watch_;
  std::thread monitor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(const AgentOptions& options) {
  RETURN_IF_ERROR(Check(options));
  auto agent = std::make_unique<WiredAgent>(options);
  RETURN_IF_ERROR(agent->Begin());
  return agent;
}

}  // namespace warmring
