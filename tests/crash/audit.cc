#include "tests/crash/audit.h"

#include <set>
#include <string>

#include "core/base/status_macros.h"
#include "core/membership/update.h"
#include "core/ownership/owner_view.h"
#include "fmt/format.h"
#include "tests/support/wait.h"

namespace warmring::crash {
namespace {

// How many keys of others are tried at each node.
constexpr size_t kStrangers = 8;

absl::Status CheckSuccession(const Membership& before, const Membership& after) {
  // Every boundary of either version begins a run with one owner and epoch in both.
  std::set<HashPoint> ends;
  for (const OwnedRange& range : before.ranges()) ends.insert(range.end);
  for (const OwnedRange& range : after.ranges()) ends.insert(range.end);
  for (const HashPoint point : ends) {
    const OwnedRange& was = before.RangeOf(point);
    const OwnedRange& is = after.RangeOf(point);
    const NodeId& old_owner = before.nodes()[was.owner].id;
    const NodeId& new_owner = after.nodes()[is.owner].id;
    if (is.epoch < was.epoch || (old_owner != new_owner && is.epoch == was.epoch)) {
      return absl::DataLossError(
          fmt::format("range up to {:016x}: {} under epoch {} in version {}, {} under epoch {} in "
                      "version {}",
                      point, old_owner, was.epoch.value, before.version().value, new_owner,
                      is.epoch.value, after.version().value));
    }
  }
  return absl::OkStatus();
}

bool IsRefusal(const support::RedisReply& reply) {
  return reply.IsError() && reply.text.starts_with("WR");
}

}  // namespace

absl::Status Audit::Run(absl::Duration within) {
  RETURN_IF_ERROR(cluster_->WaitUntilServing(within));
  ASSIGN_OR_RETURN(const Membership::Ptr head, cluster_->MembershipAt());
  if (!head->moves().empty()) {
    return absl::DataLossError(fmt::format("{} moves are left in version {}, the first of {}",
                                           head->moves().size(), head->version().value,
                                           head->moves().front().migration));
  }
  RETURN_IF_ERROR(CheckHistory(head));
  for (CacheNode& node : cluster_->Nodes()) {
    RETURN_IF_ERROR(support::WaitUntilOk(fmt::format("{} to be attached", node.id), within,
                                         [&] { return CheckAttached(node, *head); }));
    RETURN_IF_ERROR(support::WaitUntilOk(fmt::format("{} to hold only what it owns", node.id),
                                         within, [&] { return CheckStored(node, *head); }));
    RETURN_IF_ERROR(CheckReadable(node, *head));
    RETURN_IF_ERROR(CheckRefusesStrangers(node, *head));
  }
  audited_ = head;
  return absl::OkStatus();
}

absl::Status Audit::CheckHistory(const Membership::Ptr& head) {
  ASSIGN_OR_RETURN(const std::vector<Version> versions, cluster_->Versions());
  for (size_t i = 0; i < versions.size(); ++i) {
    if (versions[i].value + i != head->version().value) {
      return absl::DataLossError(fmt::format("version {} is {} places behind version {}",
                                             versions[i].value, i, head->version().value));
    }
  }
  Membership::Ptr before = audited_;
  const uint64_t first = before == nullptr ? 1 : before->version().value + 1;
  for (uint64_t number = first; number <= head->version().value; ++number) {
    ASSIGN_OR_RETURN(Membership::Ptr membership, cluster_->MembershipAt(Version(number)));
    if (before != nullptr) RETURN_IF_ERROR(CheckSuccession(*before, *membership));
    before = std::move(membership);
  }
  if (before == nullptr || before->digest() != head->digest()) {
    return absl::DataLossError(
        fmt::format("version {} went back or changed its content", head->version().value));
  }
  return absl::OkStatus();
}

// warmringd may still know nothing of a Redis that was killed just now.
absl::Status Audit::CheckAttached(CacheNode& node, const Membership& head) {
  for (size_t key = 0; key < ledger_->Size(); ++key) {
    const std::string name = Ledger::KeyName(key);
    const Route route = RouteKey(head, name);
    if (head.nodes()[route.owner].id != node.id) continue;
    ASSIGN_OR_RETURN(const support::RedisReply reply,
                     node.redis->Command(
                         {"WR.READ", FormatEpochWord(head.history(), route.epoch), "GET", name}));
    return reply.IsError() ? absl::UnavailableError(reply.Describe()) : absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Audit::CheckStored(CacheNode& node, const Membership& head) {
  ASSIGN_OR_RETURN(const support::RedisReply keys, node.redis->Command({"KEYS", "*"}));
  if (keys.IsError()) return absl::UnavailableError(keys.Describe());
  for (const support::RedisReply& key : keys.elements) {
    const NodeId& owner = head.nodes()[RouteKey(head, key.text).owner].id;
    if (owner != node.id) {
      return absl::DataLossError(fmt::format("{} still has {} of {}", node.id, key.text, owner));
    }
  }
  return absl::OkStatus();
}

absl::Status Audit::CheckReadable(CacheNode& node, const Membership& head) {
  for (size_t key = 0; key < ledger_->Size(); ++key) {
    const std::string name = Ledger::KeyName(key);
    const Route route = RouteKey(head, name);
    const NodeId& owner = head.nodes()[route.owner].id;
    ASSIGN_OR_RETURN(const support::RedisReply reply,
                     node.redis->Command(
                         {"WR.READ", FormatEpochWord(head.history(), route.epoch), "GET", name}));
    if (node.id != owner) {
      if (IsRefusal(reply)) continue;
      return absl::DataLossError(fmt::format("{} is readable at {} although {} owns it: {}", name,
                                             node.id, owner, reply.Describe()));
    }
    if (reply.elements.size() != 3) {
      return absl::DataLossError(
          fmt::format("{} is not readable at {}, its owner: {}", name, node.id, reply.Describe()));
    }
    if (reply.elements[0].IsNil()) continue;
    const absl::Status verdict =
        ledger_->Judge(key, ledger_->NewestCompleted(key), reply.elements[0].text);
    if (!verdict.ok()) {
      return absl::DataLossError(
          fmt::format("cached at {}: {}", node.id, std::string(verdict.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status Audit::CheckRefusesStrangers(CacheNode& node, const Membership& head) {
  size_t tried = 0;
  for (size_t key = 0; key < ledger_->Size() && tried < kStrangers; ++key) {
    const std::string name = Ledger::KeyName(key);
    if (head.nodes()[RouteKey(head, name).owner].id == node.id) continue;
    ++tried;
    ASSIGN_OR_RETURN(const support::RedisReply reply,
                     node.redis->Command({"SET", name, "written past the protocol"}));
    if (!IsRefusal(reply)) {
      return absl::DataLossError(
          fmt::format("{} answered a plain SET of {}, which is not its own: {}", node.id, name,
                      reply.Describe()));
    }
  }
  return absl::OkStatus();
}

}  // namespace warmring::crash
