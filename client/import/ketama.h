#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/import/fleet.h"

namespace warmring {

// How a ketama library names a server where it hashes its points, and how many points that makes.
enum class KetamaLibrary : uint8_t {
  // libmemcached (KETAMA_WEIGHTED): host:port, or the host alone for port 11211. The number of
  // points comes from its single-precision formula.
  kLibmemcached,
  // The others (libketama, uhashring): the line as it stands, 160 points.
  kOther,
};

// The ring of a list of memcached servers, a line each: host:port, and optionally a weight. Pure.
// Points are MD5 of "name-0" to "name-39", four of 32 bits each.
// Errors: InvalidArgument with the line: no host:port; weights that differ, since the number of
// points then hangs on how the original rounds; what MakeRing refuses.
absl::StatusOr<Fleet> ParseKetama(std::string_view text, KetamaLibrary library);

}  // namespace warmring
