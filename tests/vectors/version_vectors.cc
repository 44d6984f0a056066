// version.json: what a client takes, and what an owner installs, of the versions that come by. Said
// by the client's and the owner's own machines.

#include <cstdlib>
#include <utility>
#include <variant>

#include "client/sync/membership_sync_machine.h"
#include "core/membership/encoding.h"
#include "core/ownership/owner_view.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;
using Machine = MembershipSyncMachine;

constexpr Instant kNow{1'000'000'000};

// A history and a version; version 0 is nothing at all.
struct Stamp {
  uint64_t history = 0;
  uint64_t version = 0;
};

HistoryId HistoryOf(uint64_t number) {
  HistoryId history;
  history.low = number;
  return history;
}

Membership::Ptr At(const Stamp& stamp, uint32_t tokens_per_node = 1) {
  if (stamp.version == 0) return nullptr;
  MembershipData data =
      FleetOf(RingSpec(tokens_per_node), FleetNodes({"a"}), {{0, 0, Epoch(1)}})->data();
  data.history = HistoryOf(stamp.history);
  data.version = Version(stamp.version);
  return *Membership::Create(std::move(data));
}

Json StampJson(const Stamp& stamp) {
  if (stamp.version == 0) return nullptr;
  return {HistoryOf(stamp.history).ToString(), Hex(stamp.version)};
}

// What a subscribed client that has `have` does about a message.
std::string Reaction(const Stamp& have, const WatchMessage& message) {
  MembershipSyncOptions options;
  options.keyspace = "vectors";
  options.decode = [](std::string_view bytes) { return DecodeMembership(bytes); };
  Machine machine(std::move(options), At(have));
  machine.Start(kNow);
  machine.OnConnected(kNow);
  const Machine::Step step = machine.OnMessage(kNow, message);
  if (step.actions.empty()) return "ignore";
  if (std::holds_alternative<Machine::Install>(step.actions[0])) return "take";
  if (std::holds_alternative<Machine::Disconnect>(step.actions[0])) return "refuse";
  return "ask for a snapshot";
}

Json Snapshots() {
  const std::pair<Stamp, Stamp> cases[] = {
      {{0, 0}, {1, 1}},
      {{0, 0}, {1, 900}},
      {{1, 5}, {1, 6}},
      {{1, 5}, {1, 60}},
      {{1, 5}, {1, 5}},
      {{1, 5}, {1, 4}},
      {{1, 5}, {1, 1}},
      {{1, 5}, {2, 4}},
      {{1, 5}, {2, 5}},
      {{2, 5}, {1, 1}},
      {{2, 5}, {1, 900}},
      {{1, uint64_t{1} << 53}, {1, (uint64_t{1} << 53) + 1}},
      {{1, UINT64_MAX}, {1, UINT64_MAX - 1}},
  };
  Json list = Json::array();
  for (const auto& [have, offered] : cases) {
    const std::string bytes = EncodeMembership(At(offered)->data());
    const std::string action = Reaction(have, SnapshotPiece{Version(offered.version), 0, 1, bytes});
    list.push_back(
        {{"have", StampJson(have)}, {"offered", StampJson(offered)}, {"action", action}});
  }
  return list;
}

Json Deltas() {
  const struct {
    Stamp have;
    uint64_t history;
    uint64_t from;
    uint64_t to;
  } cases[] = {
      {{1, 5}, 1, 5, 6}, {{1, 5}, 1, 4, 5}, {{1, 5}, 1, 2, 3}, {{1, 5}, 1, 6, 7},
      {{1, 5}, 1, 5, 7}, {{1, 5}, 1, 4, 6}, {{1, 5}, 1, 3, 5}, {{1, 5}, 2, 5, 6},
      {{1, 5}, 2, 4, 5}, {{0, 0}, 1, 1, 2}, {{0, 0}, 1, 0, 1},
  };
  Json list = Json::array();
  for (const auto& c : cases) {
    Delta delta{HistoryOf(c.history), Version(c.from), Version(c.to), Update(), 0};
    if (c.have.version > 0) delta.digest = (*Apply(*At(c.have), Update()))->digest();
    list.push_back({{"have", StampJson(c.have)},
                    {"history", HistoryOf(c.history).ToString()},
                    {"from", Hex(c.from)},
                    {"to", Hex(c.to)},
                    {"action", Reaction(c.have, delta)}});
  }
  return list;
}

// An owner is bound to one history until it is attached anew.
Json Owners() {
  const struct {
    Stamp have;  // version 0: bound to that history, and nothing is installed
    Stamp offered;
    bool same_digest;
  } cases[] = {
      {{1, 0}, {1, 1}, true},  {{1, 0}, {2, 1}, true}, {{1, 5}, {1, 6}, true},
      {{1, 5}, {1, 60}, true}, {{1, 5}, {1, 5}, true}, {{1, 5}, {1, 5}, false},
      {{1, 5}, {1, 4}, true},  {{1, 5}, {2, 6}, true},
  };
  Json list = Json::array();
  for (const auto& c : cases) {
    OwnerView view(HistoryOf(c.have.history), "vectors", "a", Incarnation());
    if (c.have.version > 0 && !view.Install(At(c.have)).ok()) std::abort();
    const absl::Status status = view.Install(At(c.offered, c.same_digest ? 1 : 2));
    list.push_back({{"bound_to", HistoryOf(c.have.history).ToString()},
                    {"installed", Hex(c.have.version)},
                    {"offered", StampJson(c.offered)},
                    {"same_digest", c.same_digest},
                    {"action", status.ok() ? "take" : "refuse"}});
  }
  return list;
}

}  // namespace

Json VersionVectors() {
  return {{"about", "Versions never go back within a history"},
          {"snapshots", Snapshots()},
          {"deltas", Deltas()},
          {"owners", Owners()}};
}

}  // namespace warmring
