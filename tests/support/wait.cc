#include "tests/support/wait.h"

#include <chrono>
#include <thread>

#include "absl/time/time.h"
#include "fmt/format.h"

namespace warmring::support {
namespace {

// Short enough that a test does not notice, long enough that two cores have time for the servers.
constexpr std::chrono::milliseconds kPollInterval{5};

}  // namespace

absl::Status WaitFor(const std::string& what, absl::Duration within,
                     const std::function<bool()>& predicate) {
  return WaitUntilOk(what, within, [&predicate] {
    return predicate() ? absl::OkStatus() : absl::UnavailableError("not yet");
  });
}

absl::Status WaitUntilOk(const std::string& what, absl::Duration within,
                         const std::function<absl::Status()>& attempt) {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(within);
  for (;;) {
    const absl::Status last = attempt();
    if (last.ok()) return last;
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format("waited {} for {}; last answer: {}",
                                                     absl::FormatDuration(within), what,
                                                     std::string(last.message())));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace warmring::support
