#include "agent/releaser.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/base/failpoint.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

constexpr uint32_t kPurgeCount = 500;
constexpr uint32_t kForgetCount = 256;
constexpr size_t kMaxUnsent = 10'000;
constexpr absl::Duration kRetry = absl::Milliseconds(200);

bool TakesPart(const Membership& membership, const NodeId& node) {
  return std::any_of(membership.moves().begin(), membership.moves().end(),
                     [&](const Move& move) { return move.from == node || move.to == node; });
}

}  // namespace

Releaser::Releaser(ReleaserOptions options, CacheEngine* engine)
    : options_(std::move(options)), engine_(engine), notice_("releasing keys") {
  pace_.SetRates(options_.purge_keys_per_second, 0);
  thread_ = std::thread([this] { Run(); });
}

Releaser::~Releaser() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

HashRangeSet Releaser::EntitledRanges(const Membership& membership) const {
  HashRangeSet ranges = membership.OwnedBy(options_.node);
  for (const Move& move : membership.moves()) {
    if (move.from == options_.node || move.to == options_.node) ranges = ranges.Union(move.ranges);
  }
  return ranges;
}

void Releaser::OnInstalled(const Membership::Ptr& membership) {
  const HashRangeSet entitled = EntitledRanges(*membership);
  std::lock_guard<std::mutex> lock(mutex_);
  // What an earlier agent left undone is found by looking once, whatever the first membership is.
  // When overrides come or go, keys change planes, and ranges do not tell what has left.
  const bool same_planes = installed_ != nullptr && !HasEndedOverrides(*installed_, *membership) &&
                           installed_->data().next_plane == membership->data().next_plane;
  const bool shrank = !known_ || !same_planes || !entitled.Includes(entitled_);
  known_ = true;
  entitled_ = entitled;
  installed_ = membership;
  purge_again_ = purge_again_ || shrank;
  changed_at_ = options_.clock();
  wake_.notify_all();
}

void Releaser::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (installed_ == nullptr) {
      wake_.wait(lock);
      continue;
    }
    membership_ = installed_;
    if (purge_again_ && !purging_) {
      purge_again_ = false;
      purging_ = true;
      purge_cursor_ = purged_ = 0;
    }
    const bool forward = TakesPart(*membership_, options_.node) ||
                         options_.clock() - changed_at_ < options_.forward_after;
    if (!purging_ && !forward) {
      wake_.wait(lock);
      continue;
    }
    lock.unlock();
    absl::Status status;
    if (forward) status = ForwardStep();
    if (purging_) status.Update(PurgeStep());
    notice_.Report(status);
    const absl::Duration delay = status.ok() ? Delay() : kRetry;
    lock.lock();
    wake_.wait_for(lock, absl::ToChronoNanoseconds(delay),
                   [this] { return stopping_ || installed_ != membership_; });
  }
}

absl::Duration Releaser::Delay() {
  if (forget_more_) return absl::ZeroDuration();
  if (!purging_) return options_.forward_period;
  return std::clamp(pace_.Wait(options_.clock()), absl::Duration(absl::Milliseconds(1)),
                    options_.forward_period);
}

absl::Status Releaser::PurgeStep() {
  if (pace_.Wait(options_.clock()) > absl::ZeroDuration()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CacheEngine::Purged purged,
                   engine_->PurgeLeft(purge_cursor_, kPurgeCount));
  WARMRING_FP("purge.batch");
  pace_.Charge(options_.clock(), purged.keys, 0);
  purge_cursor_ = purged.next;
  purged_ += purged.keys;
  if (purge_cursor_ == 0) {
    purging_ = false;
    if (purged_ > 0) {
      spdlog::info("released {} keys that version {} gives to others", purged_,
                   membership_->version().value);
    }
  }
  return absl::OkStatus();
}

// An owner that is down holds up only its own deletes, up to a bound. One that has heard of a
// delete does not hear of it again: it may have a newer value by then.
absl::Status Releaser::ForwardStep() {
  forget_more_ = false;
  absl::Status status = Forward(std::exchange(unsent_, {}));
  if (unsent_.size() > kMaxUnsent) return status;
  ASSIGN_OR_RETURN(KeyPage page, engine_->ReadForgotten(forget_cursor_, kForgetCount));
  forget_cursor_ = page.next;
  forget_more_ = page.keys.size() >= kForgetCount;
  status.Update(Forward(std::move(page.keys)));
  return status;
}

absl::Status Releaser::Forward(std::vector<std::string> keys) {
  std::map<std::string, std::vector<std::string>> by_address;
  std::vector<std::string> own;
  for (std::string& key : keys) {
    const Node& owner = membership_->nodes()[RouteKey(*membership_, key).owner];
    std::vector<std::string>& list = owner.id == options_.node ? own : by_address[owner.address];
    list.push_back(std::move(key));
  }
  absl::Status status;
  if (!own.empty()) status = KeepUnlessSettled(std::move(own));
  for (const auto& [address, forgotten] : by_address) {
    const absl::Status sent = engine_->ForgetAt(address, forgotten);
    if (!sent.ok()) unsent_.insert(unsent_.end(), forgotten.begin(), forgotten.end());
    status.Update(sent);
  }
  return status;
}

// Deletes that the engine wants forwarded and whose range is still ours by the membership at hand.
// Either the engine has a newer one, which tells where the range went, or the range came back to us
// and the delete has long been applied where it counts.
absl::Status Releaser::KeepUnlessSettled(std::vector<std::string> keys) {
  const absl::StatusOr<CacheEngine::Stat> stat = engine_->ReadStat();
  if (stat.ok() && stat->version <= membership_->version()) return absl::OkStatus();
  unsent_.insert(unsent_.end(), keys.begin(), keys.end());
  return stat.status();
}

}  // namespace warmring
