#pragma once

#include <memory>

#include "client/redis/redis_pool.h"
#include "client/sync/membership_watch.h"
#include "warmring/client.h"

namespace warmring {

// What the parts of one client share.
struct Client::Core {
  Core(std::unique_ptr<Router> the_router, std::unique_ptr<MembershipWatch> the_watch,
       RedisPoolOptions pool_options)
      : router(std::move(the_router)), watch(std::move(the_watch)), pool(std::move(pool_options)) {}

  // The watch installs into the router until it is destroyed: it goes first.
  const std::unique_ptr<Router> router;
  const std::unique_ptr<MembershipWatch> watch;
  RedisPool pool;
};

}  // namespace warmring
