#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/executor/executor.h"
#include "server/store/store.h"

namespace warmring {

// Does the store's blocking calls on one strand of its own, in the order in which they were asked
// for, and answers on the caller's. Any thread.
//
// Two things end the process: a write whose outcome is unknown, because what was written shows only
// when the store is opened anew; and a guard of the term that does not hold, because another server
// writes to the store now. `on_failure` is called and must not return to a server that goes on.
class Committer {
 public:
  // All must outlive the committer and what it was asked for.
  Committer(Store* store, Executor* strand, std::function<void(const absl::Status&)> on_failure)
      : store_(store), strand_(strand), on_failure_(std::move(on_failure)) {}

  struct Request {
    // Written one by one before `batch`, each only while all that `batch` requires is so; nobody
    // reads them until it is committed.
    std::vector<Batch> before;
    Batch batch;
    // "p5": reaches "p5.unknown" (an error there is a lost answer) and "p5.after" once it is
    // durable and nobody knows yet. Empty: none.
    std::string failpoint;
  };
  // REQUIRES: every batch is inside its bounds. `done` runs on `reply`; not at all after a failure.
  // A conflict that it is told of is never the term's.
  void Commit(Request request, Executor* reply, std::function<void(CommitResult)> done);

  // Runs `read` where it may block.
  void Read(std::function<void(Store&)> read);

 private:
  Store* const store_;
  Executor* const strand_;
  const std::function<void(const absl::Status&)> on_failure_;
};

// Says why on the log and ends the process with code 1, at once.
[[noreturn]] void StopAfterStoreFailure(const absl::Status& status);

}  // namespace warmring
