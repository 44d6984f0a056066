#include <fmt/format.h>

#include <memory>
#include <utility>

#include "client/owner/guard_core.h"
#include "client/owner/owner_session.h"
#include "client/sync/membership_watch.h"
#include "core/base/status_macros.h"
#include "core/membership/node.h"
#include "warmring/owner.h"

namespace warmring {
namespace {

class OwnerGuardImpl final : public OwnerGuard {
 public:
  explicit OwnerGuardImpl(OwnerOptions options) : core_(std::move(options)) {}

  absl::Status Open(const OwnerOptions& options) {
    MembershipWatchOptions watch;
    watch.endpoints = options.endpoints;
    watch.keyspace = options.keyspace;
    watch.client_name = "owner " + options.node;
    watch.observer = true;
    ASSIGN_OR_RETURN(watch_, MembershipWatch::Start(watch, [this](const Membership::Ptr& value) {
                       core_.OnMembership(value);
                     }));
    OwnerSessionOptions session;
    session.endpoints = options.endpoints;
    session.keyspace = options.keyspace;
    session.node = options.node;
    ASSIGN_OR_RETURN(session_, OwnerSession::Start(session, &core_));
    core_.SetNotify([session = session_.get()] { session->Notify(); });
    return absl::OkStatus();
  }

  // The core's thread notifies the session, and the session's thread asks the core.
  ~OwnerGuardImpl() override {
    core_.Stop();
    session_.reset();
    watch_.reset();
  }

  absl::StatusOr<WriteGuard> Begin(std::string_view key, std::string_view word) override {
    return core_.Begin(key, word);
  }
  absl::Status BeginRead(std::string_view key, std::string_view word) override {
    return core_.BeginRead(key, word);
  }
  KeyPoint PointOf(std::string_view key) const override { return core_.PointOf(key); }
  bool HasLease() const override { return core_.HasLease(); }
  Version version() const override { return core_.version(); }
  absl::Status SessionStatus() const override { return session_->LastStatus(); }

 private:
  GuardCore core_;
  std::unique_ptr<MembershipWatch> watch_;
  std::unique_ptr<OwnerSession> session_;
};

}  // namespace

absl::Status WriteGuard::StillHeld() { return core_->StillHeld(*slot_); }

void WriteGuard::End() { core_->End(*slot_); }

absl::StatusOr<std::unique_ptr<OwnerGuard>> OwnerGuard::Start(OwnerOptions options) {
  RETURN_IF_ERROR(ValidateId("keyspace", options.keyspace));
  RETURN_IF_ERROR(ValidateId("node", options.node));
  if (!options.data_address.empty()) {
    RETURN_IF_ERROR(ValidateAddress("data_address", options.data_address));
  }
  if (options.drain_timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(fmt::format("drain_timeout: {}: use zero or a positive time",
                                                  absl::FormatDuration(options.drain_timeout)));
  }
  if (options.clock == nullptr) options.clock = BootNow;
  auto guard = std::make_unique<OwnerGuardImpl>(options);
  RETURN_IF_ERROR(guard->Open(options));
  return guard;
}

}  // namespace warmring
