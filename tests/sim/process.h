#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/instant.h"
#include "server/executor/clock.h"
#include "server/executor/executor.h"
#include "tests/sim/scheduler.h"

namespace warmring::sim {

class Stream;

// Places that messages go between. The server is one place, each node is one (engine and agent
// are on the same machine), each client is one.
using Site = uint32_t;
inline constexpr Site kServerSite = 0;
inline constexpr Site kDeposedSite = 1;  // of a server that has a successor

// One run of a program, from its start to its end; a restart is another Process. Its clock has a
// rate of its own and began at some time of its own.
class Process : public std::enable_shared_from_this<Process>, public Clock {
 public:
  // `rate_ppm`: how much faster than true time its clock runs, in millionths.
  Process(Scheduler* scheduler, Site site, int64_t rate_ppm, Nanos clock_start)
      : scheduler_(scheduler),
        site_(site),
        rate_ppm_(rate_ppm),
        clock_start_(clock_start),
        born_(scheduler->now()) {}

  Instant Boot() const override { return Instant{LocalAt(scheduler_->now())}; }
  absl::Time Wall() const override {
    return absl::FromUnixSeconds(1'800'000'000) + absl::Nanoseconds(scheduler_->now());
  }

  bool alive() const { return alive_; }
  Site site() const { return site_; }
  // Connections that are made from now on are with another place.
  void MoveTo(Site site) { site_ = site; }
  Scheduler& scheduler() const { return *scheduler_; }

  // Ends it at once, like kill -9: nothing that it meant to do happens any more.
  void Die();
  void Adopt(std::weak_ptr<Stream> stream) { streams_.push_back(std::move(stream)); }

  // Runs `work` after a true time, if the process is alive then.
  void After(Nanos delay, Work work) {
    scheduler_->At(scheduler_->now() + delay, [self = shared_from_this(), work = std::move(work)] {
      if (self->alive_) work();
    });
  }
  // When the own clock shows `when`, or soon after.
  void WhenBoot(Instant when, Work work) {
    if (when == Instant::Never()) return;
    After(std::max<Nanos>(0, TrueTimeOf(when) - scheduler_->now()), std::move(work));
  }

 private:
  int64_t LocalAt(Nanos true_time) const {
    const Nanos passed = true_time - born_;
    return clock_start_ + passed + static_cast<int64_t>(Wide(passed) * rate_ppm_ / 1'000'000);
  }
  Nanos TrueTimeOf(Instant when) const {
    const Nanos passed = when.nanos - clock_start_;
    Nanos at = born_ + static_cast<Nanos>(Wide(passed) * 1'000'000 / (1'000'000 + rate_ppm_));
    while (LocalAt(at) < when.nanos) ++at;
    return at;
  }
  __extension__ typedef __int128 Wide;

  Scheduler* const scheduler_;
  Site site_;
  const int64_t rate_ppm_;
  const Nanos clock_start_;
  const Nanos born_;
  bool alive_ = true;
  std::vector<std::weak_ptr<Stream>> streams_;
};

// A strand of a process: work in the order in which it was posted, each after a delay that
// `delay` draws (a slow disk, say; none otherwise).
class SimExecutor final : public Executor {
 public:
  explicit SimExecutor(Process* process, std::function<Nanos()> delay = nullptr)
      : process_(process), delay_(std::move(delay)) {}

  void Post(std::function<void()> work) override {
    const Nanos now = process_->scheduler().now();
    last_ = std::max(last_, now + (delay_ ? delay_() : 0));
    process_->After(last_ - now, std::move(work));
  }
  void RunAt(Instant when, std::function<void()> work) override {
    process_->WhenBoot(when, std::move(work));
  }

 private:
  Process* const process_;
  const std::function<Nanos()> delay_;
  Nanos last_ = 0;
};

}  // namespace warmring::sim
