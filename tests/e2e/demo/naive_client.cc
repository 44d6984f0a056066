#include "tests/e2e/demo/naive_client.h"

#include "client/base/boot_clock.h"
#include "core/base/status_macros.h"

namespace warmring::demo {

std::string NaiveClient::AddressOf(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const Route route = RouteKey(*membership_, key);
  return membership_->nodes()[route.owner].address;
}

void NaiveClient::Switch(Membership::Ptr membership) {
  std::lock_guard lock(mutex_);
  membership_ = std::move(membership);
}

absl::StatusOr<RedisReply> NaiveClient::Run(const std::string& key,
                                            const std::vector<std::string_view>& command) {
  ASSIGN_OR_RETURN(RedisPool::Lease lease,
                   pool_->Acquire(AddressOf(key), BootNow() + absl::Seconds(5)));
  return lease->Command(command);
}

absl::Status NaiveClient::Put(const std::string& key, const std::string& value, int ttl_ms) {
  return Run(key, {"SET", key, value, "PX", std::to_string(ttl_ms)}).status();
}

absl::StatusOr<std::string> NaiveClient::Read(const std::string& key) {
  ASSIGN_OR_RETURN(RedisReply reply, Run(key, {"GET", key}));
  if (reply.type == RedisReply::Type::kString) return reply.text;
  ASSIGN_OR_RETURN(std::string value, origin_->Fetch(key));
  RETURN_IF_ERROR(Put(key, value, ttl_ms_));
  return value;
}

absl::Status NaiveClient::Write(const std::string& key, const std::string& value, bool keep) {
  RETURN_IF_ERROR(origin_->Store(key, value));
  if (keep) return Put(key, value, ttl_ms_);
  return Run(key, {"DEL", key}).status();
}

}  // namespace warmring::demo
