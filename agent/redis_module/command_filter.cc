#include <string_view>

#include "agent/redis_module/module.h"

namespace warmring {
namespace {

constexpr std::string_view kPlain = "WR.PLAIN";

bool IsOurs(std::string_view name) {
  return name.size() > 3 && (name[0] == 'w' || name[0] == 'W') &&
         (name[1] == 'r' || name[1] == 'R') && name[2] == '.';
}

// Runs for each command of a client, also one that is only queued in MULTI, and one that a script
// calls. It decides nothing: it puts WR.PLAIN in front of a write, which decides at execution.
// A replica obeys its master, and loading files passes by here altogether.
void Filter(redis::FilterContext* command) {
  RedisModule& module = TheModule();
  if (!module.is_master) return;
  const int words = redis::api.CommandFilterArgsCount(command);
  const std::string_view name = redis::TextOf(redis::api.CommandFilterArgGet(command, 0));
  if (IsOurs(name)) return;
  const std::string_view second =
      words < 2 ? std::string_view() : redis::TextOf(redis::api.CommandFilterArgGet(command, 1));
  if (module.commands.Find(name, second) == PlainKind::kPass) return;
  // The server keeps the string.
  redis::api.CommandFilterArgInsert(command, 0,
                                    redis::api.CreateString(nullptr, kPlain.data(), kPlain.size()));
}

}  // namespace

bool RegisterCommandFilter(redis::Context* context) {
  return redis::api.RegisterCommandFilter(context, Filter, redis::kFilterNoSelf) != nullptr;
}

}  // namespace warmring
