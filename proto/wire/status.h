#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace warmring::wire {

// Errors between core and gRPC. The code and the message stay; the Reason of core/base/reason.h
// becomes an ErrorInfo inside a warmring.v1.Status in grpc-status-details-bin, and back. Pure, any
// thread.

// An error without a reason gets the one that its code implies: InvalidArgument BAD_FIELD, NotFound
// NOT_FOUND, AlreadyExists ALREADY_EXISTS, ResourceExhausted LIMIT_EXCEEDED, PermissionDenied and
// Unauthenticated NOT_ALLOWED, Unimplemented UNSUPPORTED; the others none.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Details that are malformed or not ours are dropped: the code and the message are what counts.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace warmring::wire
