#pragma once

#include <functional>
#include <memory>

#include "client/sync/membership_sync_machine.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"

namespace warmring::sim {

class World;

// Follows the membership for one process: the real MembershipSyncMachine, with simulated streams.
class Watcher {
 public:
  using OnInstall = std::function<void(const Membership::Ptr&)>;
  Watcher(World* world, Process* process, uint64_t seed, OnInstall on_install);

  void Start() { Do(machine_.Start(process_->Boot())); }
  // Of stream `turn`, from the server.
  void OnMessage(uint64_t turn, const WatchMessage& message);

 private:
  void Do(const MembershipSyncMachine::Step& step);
  void Connect();
  void OnEnded(uint64_t turn);

  World* const world_;
  Process* const process_;
  const OnInstall on_install_;
  MembershipSyncMachine machine_;
  std::shared_ptr<Stream> stream_;
  std::function<void(const WatchRequest&)> request_;  // to the server's end of stream_
  uint64_t turn_ = 0;                                 // of the present stream
  uint64_t timer_ = 0;
  Version last_;  // installed
};

}  // namespace warmring::sim
