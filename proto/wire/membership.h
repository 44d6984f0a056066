#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/hash_range.h"
#include "core/membership/keyspace_spec.h"
#include "core/membership/membership.h"
#include "core/membership/node.h"
#include "core/membership/update.h"
#include "warmring/v1/membership.pb.h"

// Memberships and their parts between protobuf and core. Pure, any thread. What comes from a
// message is checked in full: a value that these functions return keeps every invariant of its
// type. Errors are InvalidArgument and name the field (prefixed with `field`), the value and the
// bound.

namespace warmring::wire {

v1::HashRanges ToProto(const HashRangeSet& ranges);
absl::StatusOr<HashRangeSet> HashRangesFromProto(std::string_view field,
                                                 const v1::HashRanges& proto);

v1::KeyspaceSpec ToProto(const KeyspaceSpec& spec);
// Unset fields get their defaults; fields are named below `spec.`.
absl::StatusOr<KeyspaceSpec> KeyspaceSpecFromProto(const v1::KeyspaceSpec& proto);

v1::Node ToProto(const Node& node);
absl::StatusOr<Node> NodeFromProto(std::string_view field, const v1::Node& proto);
// Thousandths. Error: it is not in 0.01..1000, naming `field`.weight.
absl::StatusOr<uint32_t> WeightFromProto(std::string_view field, double weight);

v1::Pin ToProto(const Pin& pin);

v1::OverrideRule ToProto(const OverrideRule& rule);
absl::StatusOr<OverrideRule> OverrideRuleFromProto(std::string_view field,
                                                   const v1::OverrideRule& proto);

v1::Membership ToProto(const Membership& membership);
// Besides: DataLoss when the digest is not that of the content.
absl::StatusOr<Membership::Ptr> MembershipFromProto(const v1::Membership& proto);

v1::Delta ToProto(const Delta& delta);
// Whether the update fits its base is for ApplyDelta to say.
absl::StatusOr<Delta> DeltaFromProto(const v1::Delta& proto);

// 32 hex digits as the id type `Id` (Id128, HistoryId, Incarnation).
template <typename Id>
absl::StatusOr<Id> IdFromProto(std::string_view field, std::string_view text);

}  // namespace warmring::wire
