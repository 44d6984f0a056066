#pragma once

#include <deque>
#include <string>

#include "tests/sim/process.h"
#include "tests/sim/watcher.h"

namespace warmring::sim {

// Writes and reads keys, with the membership that it has, with older ones, and with epochs that
// never were, at their owners and elsewhere.
class Client final : public Process {
 public:
  Client(World* world, Site site);
  void Start();

 private:
  void Act();
  void Send(const std::string& key, Epoch epoch, const NodeId& node);

  World* const world_;
  Watcher watcher_;
  std::deque<Membership::Ptr> known_;  // the newest last
};

}  // namespace warmring::sim
