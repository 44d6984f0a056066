#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/import/fleet.h"

namespace warmring {

// The ring of Envoy's (and gRPC's) ring_hash policy over hosts of equal weight. Pure.
//
//   {"hosts": ["10.0.0.1:8080", {"address": "10.0.0.2:8080", "hash_key": "b", "weight": 1}],
//    "minimum_ring_size": 1024, "maximum_ring_size": 8388608}
//
// Each host has H points, XXH64("<address or hash key>_<i>") for i from 0; a key goes to the first
// point at or after XXH64(key), which is Envoy's hash of one header or one filter state object.
// H is `hashes_per_host` where it is given (Envoy shows it as the gauges min_hashes_per_host and
// max_hashes_per_host), and else ceil(minimum_ring_size / hosts).
//
// Errors: InvalidArgument with the member. Refused are: weights that differ; a maximum_ring_size
// that cuts the ring, since hosts then have different numbers of points; a number of hosts for
// which Envoy's running sum in double precision gives one host another number than ceil says, or
// may do so on another machine (say hashes_per_host); another hash_function than XX_HASH; what
// MakeRing refuses.
absl::StatusOr<Fleet> ParseEnvoyRing(std::string_view text);

}  // namespace warmring
