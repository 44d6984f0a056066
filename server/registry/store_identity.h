#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "server/store/store.h"

namespace warmring {

// Which history this store holds, and which term of it this process is. Plain value.
struct StoreIdentity {
  HistoryId history;
  Term term;

  // Guards a batch against a later start of another server on the same store.
  Batch Guard() const;
};

// Begins a term: the store's one, plus one, durable before it is used. A new store gets
// `fresh_history` (128 random bits). Blocks.
// Errors: those of the store; DataLoss: damaged; Aborted: another server began a term meanwhile.
absl::StatusOr<StoreIdentity> BeginTerm(Store& store, const HistoryId& fresh_history);

}  // namespace warmring
