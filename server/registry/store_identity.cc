#include "server/registry/store_identity.h"

#include <charconv>

#include "core/base/mutant.h"
#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

std::string EncodeTerm(Term term) { return fmt::format("{}", term.value); }

absl::Status Damaged(std::string_view key, std::string_view value) {
  return absl::DataLossError(
      fmt::format("store: {} is damaged ('{}'): restore the data directory from a copy", key,
                  Printable(value)));
}

}  // namespace

Batch StoreIdentity::Guard() const {
  Batch batch;
  if (IsMutant(Mutant::kE)) return batch;
  batch.RequireValue(schema::TermKey(), EncodeTerm(term));
  return batch;
}

absl::StatusOr<StoreIdentity> BeginTerm(Store& store, const HistoryId& fresh_history) {
  StoreIdentity identity;
  Batch batch;
  ASSIGN_OR_RETURN(const std::optional<std::string> history, store.Get(schema::HistoryKey()));
  ASSIGN_OR_RETURN(const std::optional<std::string> term, store.Get(schema::TermKey()));
  if (history) {
    const absl::StatusOr<Id128> id = Id128::Parse(*history);
    if (!id.ok()) return Damaged(schema::HistoryKey(), *history);
    identity.history.high = id->high;
    identity.history.low = id->low;
  } else {
    identity.history = fresh_history;
    batch.RequireAbsent(schema::HistoryKey()).Put(schema::HistoryKey(), fresh_history.ToString());
  }
  uint64_t last = 0;
  if (term) {
    const auto [end, error] = std::from_chars(term->data(), term->data() + term->size(), last);
    if (error != std::errc() || end != term->data() + term->size()) {
      return Damaged(schema::TermKey(), *term);
    }
    batch.RequireValue(schema::TermKey(), *term);
  } else {
    batch.RequireAbsent(schema::TermKey());
  }
  identity.term = Term(last + 1);
  batch.Put(schema::TermKey(), EncodeTerm(identity.term));
  ASSIGN_OR_RETURN(const CommitResult result, store.Commit(batch));
  if (!result.committed) {
    return absl::AbortedError("another warmringd has just started on the same store: stop one");
  }
  return identity;
}

}  // namespace warmring
