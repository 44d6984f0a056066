#include "client/loader/fill_budget.h"

#include <algorithm>

namespace warmring {

void FillBudget::SetRate(double per_second) {
  if (per_second <= 0) {
    interval_ = absl::ZeroDuration();
    return;
  }
  interval_ = absl::Seconds(1 / per_second);
  tolerance_ = std::max(absl::Milliseconds(100) - interval_, absl::ZeroDuration());
}

std::optional<absl::Duration> FillBudget::Take(Instant now, absl::Duration max_wait) {
  if (interval_ == absl::ZeroDuration()) return absl::ZeroDuration();
  const absl::Duration wait = std::max((next_ - now) - tolerance_, absl::ZeroDuration());
  if (wait > max_wait) return std::nullopt;
  next_ = std::max(next_, now) + interval_;
  return wait;
}

}  // namespace warmring
