#include "agent/owner_link.h"

#include <chrono>
#include <utility>

#include "client/base/failpoint.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

constexpr uint32_t kPurgeCount = 1000;
constexpr std::chrono::milliseconds kInstallRetry(50);

}  // namespace

OwnerLink::OwnerLink(OwnerLinkOptions options, CacheEngine* engine,
                     std::function<void(const Membership::Ptr&)> installed)
    : options_(std::move(options)),
      engine_(engine),
      installed_(std::move(installed)),
      attach_notice_("attaching to " + options_.data_address),
      install_notice_("installing the membership at " + options_.data_address),
      grant_notice_("lease"),
      installer_([this] { RunInstaller(); }) {}

OwnerLink::~OwnerLink() { Stop(); }

void OwnerLink::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (installer_.joinable()) installer_.join();
}

absl::StatusOr<OwnerPort::Identity> OwnerLink::Attach(const HistoryId& history,
                                                      OnRestart on_restart) {
  const auto attached = engine_->Attach(history, options_.keyspace, options_.node, on_restart);
  absl::Status status = attached.status();
  if (status.ok() && attached->purge_due) {
    spdlog::info("{} was restarted with {} keys: they are purged before the first lease",
                 options_.data_address, attached->keys);
    status = PurgeAll();
  }
  attach_notice_.Report(status);
  RETURN_IF_ERROR(status);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (incarnation_ != attached->incarnation) {
      spdlog::info("attached to {}: incarnation {}", options_.data_address,
                   attached->incarnation.ToString());
      installed_map_ = nullptr;
    } else if (installed_map_ != nullptr && installed_map_->history() != history) {
      installed_map_ = nullptr;
    }
    incarnation_ = attached->incarnation;
    ++attachments_;
    stat_known_ = false;
    wake_.notify_all();
  }
  runner_->SetIncarnation(attached->incarnation);
  runner_->RepeatReports();
  return Identity{attached->incarnation, transfer_address_, attached->rdb_version,
                  options_.data_address};
}

absl::Status OwnerLink::PurgeAll() {
  const Instant until = options_.clock() + options_.purge_span;
  uint64_t cursor = 0;
  do {
    ASSIGN_OR_RETURN(const CacheEngine::Purged purged, engine_->PurgeAll(cursor, kPurgeCount));
    WARMRING_FP("purge.batch");
    cursor = purged.next;
    if (cursor != 0 && options_.clock() >= until) {
      return absl::UnavailableError("purging what an earlier incarnation left");
    }
  } while (cursor != 0);
  return absl::OkStatus();
}

absl::StatusOr<OwnerPort::Renewal> OwnerLink::Renew() {
  if (std::exchange(reported_, false)) WARMRING_FP("report.sent");
  RefreshStat();
  ASSIGN_OR_RETURN(const uint64_t seq, engine_->Renew());
  std::lock_guard<std::mutex> lock(mutex_);
  Renewal renewal;
  renewal.seq = seq;
  if (installed_map_ != nullptr) renewal.applied_version = installed_map_->version();
  renewal.keys = stat_.keys;
  renewal.bytes = stat_.bytes;
  return renewal;
}

void OwnerLink::RefreshStat() {
  const Instant now = options_.clock();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stat_known_ && now - stat_at_ < options_.stat_period) return;
  }
  const auto stat = engine_->ReadStat();
  if (!stat.ok()) return;  // the renewal says what is wrong
  std::lock_guard<std::mutex> lock(mutex_);
  stat_ = *stat;
  stat_at_ = now;
  stat_known_ = true;
}

absl::Status OwnerLink::Grant(const LeaseGrant& grant) {
  WARMRING_FP("grant.before");
  const absl::Status status = engine_->Grant(grant);
  WARMRING_FP("grant.after");
  grant_notice_.Report(status);
  return status;
}

void OwnerLink::SetTasks(const std::vector<Task>& tasks) { runner_->SetTasks(tasks); }

std::vector<TaskReport> OwnerLink::TakeReports() {
  std::vector<TaskReport> reports = runner_->TakeReports();
  reported_ = reported_ || !reports.empty();
  return reports;
}

void OwnerLink::OnMembership(const Membership::Ptr& membership) {
  std::lock_guard<std::mutex> lock(mutex_);
  newest_ = membership;
  wake_.notify_all();
}

Membership::Ptr OwnerLink::Installed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return installed_map_;
}

void OwnerLink::RunInstaller() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (!incarnation_.has_value() || newest_ == nullptr || newest_ == installed_map_) {
      wake_.wait(lock);
      continue;
    }
    const Membership::Ptr membership = newest_;
    const uint64_t attachments = attachments_;
    lock.unlock();
    WARMRING_FP("map.before");
    const absl::Status status = engine_->InstallMap(*membership);
    WARMRING_FP("map.after");
    install_notice_.Report(status);
    lock.lock();
    if (!status.ok()) {
      const auto changed = [&] {
        return stopping_ || newest_ != membership || attachments_ != attachments;
      };
      wake_.wait_for(lock, kInstallRetry, changed);
      continue;
    }
    if (attachments != attachments_) continue;  // it may have gone to an earlier incarnation
    installed_map_ = membership;
    lock.unlock();
    installed_(membership);
    lock.lock();
  }
}

}  // namespace warmring
