#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/membership/membership.h"

namespace warmring {

// The newest membership that a client has seen, in a file, so that it can route
// while every server is down. One process writes a file at a time. Not
// thread-safe.
class LastKnownGood {
 public:
  explicit LastKnownGood(std::string path) : path_(std::move(path)) {}

  // Replaces the file in one step: a crash leaves the old one or the new one.
  // Errors: Unavailable naming the path and the system's reason.
  absl::Status Write(const Membership& membership) const;

  // Errors: NotFound: there is no file; DataLoss: it is torn or corrupt;
  // Unimplemented: a newer version of this library wrote it;
  // FailedPrecondition: it is of another keyspace; Unavailable: it cannot be
  // read.
  absl::StatusOr<Membership::Ptr> Read(const KeyspaceId& keyspace) const;

 private:
  const std::string path_;
};

}  // namespace warmring
