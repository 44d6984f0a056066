#pragma once

#include <memory>

#include "client/loader/node_transport.h"
#include "client/sync/membership_watch.h"
#include "warmring/loader.h"
#include "warmring/router.h"

namespace warmring {

// What Loader::Create takes from the client, as arguments for tests. All must outlive the loader.
struct LoaderSeams {
  const Router* router = nullptr;
  MembershipWatch* watch = nullptr;
  NodeTransport* nodes = nullptr;
  std::unique_ptr<NodeTransport> owned_nodes;  // in place of `nodes`
};
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(LoaderSeams seams, Origin origin,
                                                   LoaderOptions options);

}  // namespace warmring
