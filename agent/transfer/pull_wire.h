#pragma once

#include "absl/status/statusor.h"
#include "agent/transfer/pull.h"
#include "warmring/v1/transfer_service.pb.h"

// Transfers between protobuf and the values of pull.h. Pure, any thread. Errors are InvalidArgument
// and name the field, the value and the bound.

namespace warmring {

v1::PullStart PullOrderToProto(const PullOrder& order);
absl::StatusOr<PullOrder> PullOrderFromProto(const v1::PullStart& proto);

v1::PullVerify VerifyRequestToProto(const VerifyRequest& request);
VerifyRequest VerifyRequestFromProto(const v1::PullVerify& proto);

// Payloads are moved, not copied.
v1::PullResponse PullItemToProto(PullItem item);
absl::StatusOr<PullItem> PullItemFromProto(v1::PullResponse proto);

}  // namespace warmring
