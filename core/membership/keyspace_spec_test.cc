// Which keyspaces may exist, and what a refusal names.

#include "core/membership/keyspace_spec.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

KeyspaceSpec GoodSpec(PlacementKind placement) {
  KeyspaceSpec spec;
  spec.id = "sessions";
  spec.placement = placement;
  return spec;
}

TEST(ValidateKeyspaceSpecTest, AcceptsTheBounds) {
  KeyspaceSpec directory = GoodSpec(PlacementKind::kDirectory);
  EXPECT_OK(ValidateKeyspaceSpec(directory));
  for (const uint32_t bits : {10u, 20u}) {
    directory.directory_bits = bits;
    EXPECT_OK(ValidateKeyspaceSpec(directory));
  }
  directory.replication = 16;
  directory.grace_ms = 0;
  directory.tokens_per_node = 0;  // means nothing on a directory
  EXPECT_OK(ValidateKeyspaceSpec(directory));
  KeyspaceSpec ring = GoodSpec(PlacementKind::kRing);
  ring.directory_bits = 0;  // means nothing on a ring
  ring.on_restart = OnRestart::kTrust;
  for (const uint32_t tokens : {1u, 4096u}) {
    ring.tokens_per_node = tokens;
    EXPECT_OK(ValidateKeyspaceSpec(ring));
  }
}

TEST(ValidateKeyspaceSpecTest, RefusesWithTheField) {
  struct Case {
    PlacementKind placement;
    std::string message;
    std::function<void(KeyspaceSpec&)> spoil;
  };
  using S = KeyspaceSpec;
  constexpr auto kDirectory = PlacementKind::kDirectory;
  constexpr auto kRing = PlacementKind::kRing;
  const Case cases[] = {
      {kDirectory, "spec.id: '9'", [](S& s) { s.id = "9"; }},
      {kDirectory, "spec.directory_bits: 9 is out of bounds: use 10 to 20",
       [](S& s) { s.directory_bits = 9; }},
      {kDirectory, "spec.directory_bits: 21", [](S& s) { s.directory_bits = 21; }},
      {kRing, "spec.tokens_per_node: 0 is out of bounds: use 1 to 4096",
       [](S& s) { s.tokens_per_node = 0; }},
      {kRing, "spec.tokens_per_node: 4097", [](S& s) { s.tokens_per_node = 4097; }},
      {kDirectory, "spec.replication: 0 is out of bounds: use 1 to 16",
       [](S& s) { s.replication = 0; }},
      {kDirectory, "spec.allocator: deliberate on a directory",
       [](S& s) { s.allocator = Allocator::kDeliberate; }},
      {kRing, "spec.allocator: rendezvous on a ring",
       [](S& s) { s.allocator = Allocator::kRendezvous; }},
      {kRing, "spec.allocator: 3 is unknown",
       [](S& s) { s.allocator = static_cast<Allocator>(3); }},
      {kDirectory, "spec.replication: 17", [](S& s) { s.replication = 17; }},
      {kDirectory, "spec.grace_ms: 86400001", [](S& s) { s.grace_ms = 86'400'001; }},
      {kDirectory, "spec.placement: 0 is unknown",
       [](S& s) { s.placement = static_cast<PlacementKind>(0); }},
      {kDirectory, "spec.hash.function: 9 is unknown",
       [](S& s) { s.hash.function = static_cast<HashSpec::Function>(9); }},
      {kDirectory, "spec.on_restart: 3 is unknown",
       [](S& s) { s.on_restart = static_cast<OnRestart>(3); }},
  };
  for (const Case& c : cases) {
    KeyspaceSpec spec = GoodSpec(c.placement);
    c.spoil(spec);
    EXPECT_THAT(ValidateKeyspaceSpec(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, c.message));
  }
}

}  // namespace
}  // namespace warmring
