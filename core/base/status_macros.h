#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Propagate an error to the caller. The packaged Abseil has no such macros.

#define WR_STATUS_CONCAT_INNER(a, b) a##b
#define WR_STATUS_CONCAT(a, b) WR_STATUS_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                \
  do {                                       \
    absl::Status wr_status_ = (expr);        \
    if (!wr_status_.ok()) return wr_status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_INNER(WR_STATUS_CONCAT(wr_statusor_, __LINE__), lhs, expr)

#define ASSIGN_OR_RETURN_INNER(var, lhs, expr) \
  auto var = (expr);                           \
  if (!var.ok()) return var.status();          \
  lhs = std::move(var).value()
