#include "tests/sim/watcher.h"

#include <utility>

#include "core/membership/encoding.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

MembershipSyncOptions OptionsFor(const KeyspaceId& keyspace, uint64_t seed) {
  MembershipSyncOptions options;
  options.keyspace = keyspace;
  options.seed = seed;
  options.backoff_max = absl::Seconds(2);
  options.idle_timeout = absl::Seconds(10);
  options.decode = [](std::string_view bytes) { return DecodeMembership(bytes); };
  return options;
}

}  // namespace

Watcher::Watcher(World* world, Process* process, uint64_t seed, OnInstall on_install)
    : world_(world),
      process_(process),
      on_install_(std::move(on_install)),
      machine_(OptionsFor(world->keyspace(), seed), nullptr) {}

void Watcher::OnMessage(uint64_t turn, const WatchMessage& message) {
  if (turn == turn_) Do(machine_.OnMessage(process_->Boot(), message));
}

void Watcher::OnEnded(uint64_t turn) {
  if (turn != turn_) return;
  stream_.reset();
  Do(machine_.OnDisconnected(process_->Boot(), absl::UnavailableError("ended")));
}

void Watcher::Do(const MembershipSyncMachine::Step& step) {
  for (const MembershipSyncMachine::Action& action : step.actions) {
    if (std::holds_alternative<MembershipSyncMachine::Connect>(action)) {
      Connect();
    } else if (const auto* send = std::get_if<MembershipSyncMachine::Send>(&action)) {
      if (request_) request_(send->request);
    } else if (const auto* install = std::get_if<MembershipSyncMachine::Install>(&action)) {
      world_->checker().OnWatched(last_, *install->membership);
      last_ = install->membership->version();
      on_install_(install->membership);
    } else if (stream_ != nullptr) {
      ++turn_;
      stream_->Close(0);
      stream_.reset();
      request_ = nullptr;
    }
  }
  process_->WhenBoot(step.wake_at, [this, timer = ++timer_] {
    if (timer == timer_) Do(machine_.OnTimer(process_->Boot()));
  });
}

void Watcher::Connect() {
  const uint64_t turn = ++turn_;
  request_ = nullptr;
  const std::shared_ptr<Server> server = world_->PickServer(process_->site());
  if (server == nullptr) {
    process_->After(world_->network().Delay(), [this, turn] { OnEnded(turn); });
    return;
  }
  stream_ = Stream::Open(&world_->network(), process_->shared_from_this(), server, false);
  stream_->SetOnEnd(0, [this, turn] { OnEnded(turn); });
  request_ = [stream = stream_, server = std::weak_ptr<Server>(server), turn,
              this](const WatchRequest& request) {
    stream->Send(0, [stream, server, turn, request, this] {
      if (const auto at = server.lock()) at->OnWatchRequest(stream, this, turn, request);
    });
  };
  // Connected as soon as both have exchanged a word.
  process_->After(2 * world_->network().Delay(), [this, turn] {
    if (turn == turn_ && stream_ != nullptr) Do(machine_.OnConnected(process_->Boot()));
  });
}

}  // namespace warmring::sim
