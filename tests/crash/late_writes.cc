#include "tests/crash/late_writes.h"

#include <utility>

#include "core/base/status_macros.h"
#include "core/ownership/owner_view.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace warmring::crash {
namespace {

// Keys that are looked at to find so many for late writes.
constexpr int kCandidates = 2000;
constexpr size_t kWrites = 10;

}  // namespace

absl::Status LateWrites::Send(const Membership& before, const Membership& after, CacheNode& donor,
                              const std::string& value) {
  for (int number = 0; number < kCandidates && writes_.size() < kWrites; ++number) {
    const std::string key = fmt::format("late-{}", number);
    const Route route = RouteKey(before, key);
    if (before.nodes()[route.owner].id != donor.id) continue;
    if (after.nodes()[RouteKey(after, key).owner].id == donor.id) continue;
    Write write;
    ASSIGN_OR_RETURN(write.connection, donor.redis->Connect());
    write.words = {"WR.WRITE", FormatEpochWord(before.history(), route.epoch), "SET", key, value};
    RETURN_IF_ERROR(write.connection->Send(write.words));
    writes_.push_back(std::move(write));
  }
  if (writes_.empty()) return absl::InternalError("no key has left " + donor.id);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> LateWrites::ReceiveAccepted() {
  std::vector<std::string> accepted;
  for (Write& write : writes_) {
    ASSIGN_OR_RETURN(const support::RedisReply reply, write.connection->Receive());
    if (reply.IsError() && reply.text.starts_with("WR")) continue;
    accepted.push_back(fmt::format("{} = {}", fmt::join(write.words, " "), reply.Describe()));
  }
  return accepted;
}

}  // namespace warmring::crash
