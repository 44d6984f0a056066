#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Matchers for absl::Status and absl::StatusOr, which this version of Abseil does not ship:
//
//   EXPECT_OK(store.Commit(batch));
//   EXPECT_THAT(plan, StatusIs(absl::StatusCode::kNotFound, "keyspace"));
//   ASSERT_OK_AND_ASSIGN(const Preview preview, planner.Plan(membership));

namespace warmring::support {

inline const absl::Status& AsStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& AsStatus(const absl::StatusOr<T>& value) {
  return value.status();
}

// Matches a status or a StatusOr that is OK.
MATCHER(IsOk, negation ? "is an error" : "is OK") {
  const absl::Status& status = AsStatus(arg);
  if (status.ok()) return true;
  *result_listener << status.ToString();
  return false;
}

// Matches an error of this code whose message contains `substr` (an empty one always matches).
MATCHER_P2(StatusIs, code, substr,
           std::string(negation ? "is not " : "is ") + absl::StatusCodeToString(code) +
               " with a message that contains \"" + std::string(substr) + "\"") {
  const absl::Status& status = AsStatus(arg);
  const std::string message(status.message());
  *result_listener << status.ToString();
  return status.code() == code && message.find(substr) != std::string::npos;
}

inline auto StatusIs(absl::StatusCode code) { return StatusIs(code, std::string()); }

}  // namespace warmring::support

// The matchers are found from any namespace of the project's tests.
namespace warmring {
using support::IsOk;      // NOLINT(misc-unused-using-decls)
using support::StatusIs;  // NOLINT(misc-unused-using-decls)
}  // namespace warmring

#define EXPECT_OK(expression) EXPECT_THAT((expression), ::warmring::support::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT((expression), ::warmring::support::IsOk())

#define WARMRING_MATCHERS_CONCAT_INNER(a, b) a##b
#define WARMRING_MATCHERS_CONCAT(a, b) WARMRING_MATCHERS_CONCAT_INNER(a, b)

// Evaluates `expression` (a StatusOr), fails the test if it is an error, else moves the value into
// `declaration`. Usable in functions that return void, like every ASSERT.
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL(WARMRING_MATCHERS_CONCAT(status_or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL(status_or, declaration, expression) \
  auto status_or = (expression);                                      \
  ASSERT_THAT(status_or, ::warmring::support::IsOk());                \
  declaration = std::move(status_or).value()
