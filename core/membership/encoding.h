#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/membership/membership.h"
#include "core/membership/update.h"

// The canonical binary form of a membership and of a delta: little-endian, length-prefixed, with a
// format number in front. It feeds the digest, the store, the last-known-good file and the owner
// inside the engine. Equal values have equal bytes. Decoding accepts hostile input: it checks every
// length and count before it allocates.

namespace warmring {

// The newest format. A value is written in the oldest one that can hold it: format 1 has neither
// overrides nor pins, nor deltas that grow a directory, so that what does not use them is read by
// programs that do not know them.
inline constexpr uint32_t kMembershipFormat = 2;
// Of a delta: format 3 is what changes followers.
inline constexpr uint32_t kDeltaFormat = 3;

std::string EncodeMembership(const MembershipData& data);
// XXH3_64 of EncodeMembership(data), without having all its bytes at once.
uint64_t DigestOf(const MembershipData& data);
// Errors: InvalidArgument (truncated, trailing bytes, count over its limit, broken invariant);
// Unimplemented when the bytes have a newer format number.
absl::StatusOr<Membership::Ptr> DecodeMembership(std::string_view bytes);

std::string EncodeDelta(const Delta& delta);
absl::StatusOr<Delta> DecodeDelta(std::string_view bytes);

// A file form: magic, length and XXH3_64 checksum around EncodeMembership.
// Error of the reader: DataLoss when the checksum or the length does not fit.
std::string SealMembership(const Membership& membership);
absl::StatusOr<Membership::Ptr> UnsealMembership(std::string_view bytes);

}  // namespace warmring
