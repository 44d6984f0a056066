#pragma once

#include "agent/redis_module/command_table.h"
#include "agent/redis_module/owner_state.h"
#include "agent/redis_module/redis_api.h"
#include "core/base/instant.h"

namespace warmring {

// What the loaded module consists of. One for the process; main thread only.
struct RedisModule {
  OwnerState state;
  CommandTable commands;
  bool is_master = true;  // of replication; a replica obeys its master and owns nothing
};

// REQUIRES: OnLoad has made it.
RedisModule& TheModule();

// Now, on CLOCK_BOOTTIME.
Instant BootNow();

// 128 random bits of the server.
Incarnation FreshIncarnation();

// Each registers its commands or hooks. False when the server refuses one.
bool RegisterClientCommands(redis::Context* context);
bool RegisterAgentCommands(redis::Context* context);
bool RegisterCommandFilter(redis::Context* context);

}  // namespace warmring
