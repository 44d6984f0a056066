#include "server/store/committer.h"

#include <cstdlib>
#include <memory>

#include "core/base/mutant.h"
#include "fmt/format.h"
#include "server/executor/failpoint.h"
#include "server/store/schema/key.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

// What goes ahead is written only while all that its batch requires is so: a server that has been
// deposed must not write over the pages of its successor.
absl::StatusOr<CommitResult> CommitAll(Store& store, Committer::Request& request) {
  for (Batch& batch : request.before) {
    for (const Batch::Guard& guard : request.batch.guards()) {
      if (guard.value) {
        batch.RequireValue(guard.key, *guard.value);
      } else {
        batch.RequireAbsent(guard.key);
      }
    }
    absl::StatusOr<CommitResult> result = store.Commit(batch);
    if (!result.ok() || !result->committed) return result;
  }
  return store.Commit(request.batch);
}

}  // namespace

void Committer::Commit(Request request, Executor* reply, std::function<void(CommitResult)> done) {
  // Shared, because std::function wants to copy what it holds.
  auto shared = std::make_shared<Request>(std::move(request));
  strand_->Post([this, shared, reply, done = std::move(done)] {
    absl::StatusOr<CommitResult> result = CommitAll(*store_, *shared);
    if (result.ok() && result->committed && !shared->failpoint.empty()) {
      // It is durable, and the answer is lost.
      const absl::Status lost = WARMRING_FP_STATUS(fmt::format("{}.unknown", shared->failpoint));
      if (!lost.ok()) result = lost;
    }
    if (!result.ok()) {
      on_failure_(result.status());
      return;
    }
    if (!result->committed && result->conflict_key == schema::TermKey()) {
      if (IsMutant(Mutant::kK)) return;
      on_failure_(absl::AbortedError(
          fmt::format("another warmringd has begun a term on this store (it is now '{}')",
                      result->actual.value_or(""))));
      return;
    }
    if (result->committed && !shared->failpoint.empty()) {
      WARMRING_FP(fmt::format("{}.after", shared->failpoint));
    }
    reply->Post([done, result = *std::move(result)] { done(result); });
  });
}

void Committer::Read(std::function<void(Store&)> read) {
  strand_->Post([this, read = std::move(read)] { read(*store_); });
}

void StopAfterStoreFailure(const absl::Status& status) {
  const char* const way_out = absl::IsAborted(status)
                                  ? "stopping; keep one warmringd on a store"
                                  : "stopping; free or repair the disk, then start warmringd "
                                    "again: it reads what was written "
                                    "and goes on from there";
  spdlog::critical("{}: {}", std::string(status.message()), way_out);
  spdlog::default_logger()->flush();
  std::_Exit(1);
}

}  // namespace warmring
