#include "tests/sim/client.h"

#include <optional>
#include <utility>

#include "tests/sim/engine.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

constexpr size_t kRemembered = 12;

}  // namespace

Client::Client(World* world, Site site)
    : Process(&world->scheduler(), site, 0, kSecond),
      world_(world),
      watcher_(world, this, world->random().Next(), [this](const Membership::Ptr& membership) {
        known_.push_back(membership);
        if (known_.size() > kRemembered) known_.pop_front();
      }) {}

void Client::Start() {
  watcher_.Start();
  Act();
}

void Client::Act() {
  After(world_->ClientPause(), [this] { Act(); });
  if (known_.empty()) return;
  Random& random = world_->random();
  const std::string& key = world_->keys()[random.Below(world_->keys().size())];
  const bool old = random.Chance(250);
  const Membership& map = *(old ? known_[random.Below(known_.size())] : known_.back());
  const OwnedRange range = map.RangeOf(map.PointOf(key));
  Epoch epoch = range.epoch;
  if (random.Chance(60)) epoch = Epoch(random.Below(range.epoch.value + 4));
  const NodeId node = random.Chance(150) ? world_->nodes()[random.Below(world_->nodes().size())]
                                         : map.nodes()[range.owner].id;
  Send(key, epoch, node);
}

void Client::Send(const std::string& key, Epoch epoch, const NodeId& node) {
  const std::shared_ptr<Engine> engine = world_->EngineForClient(node);
  if (engine == nullptr || world_->network().IsCut(site(), engine->site())) return;
  const bool reads = world_->random().Chance(300);
  engine->After(world_->network().Delay(), [world = world_, engine, key, epoch, reads] {
    if (reads) {
      std::optional<uint64_t> value;
      if (engine->Read(key, epoch, &value).ok()) {
        world->checker().OnRead(*engine, key, epoch, value);
      }
      return;
    }
    const uint64_t value = world->NextValue();
    const Admission admission = engine->Write(key, epoch, value);
    world->Mix(static_cast<uint64_t>(admission.verdict));
    world->checker().OnAnswered(*engine, key, epoch, admission);
  });
}

}  // namespace warmring::sim
