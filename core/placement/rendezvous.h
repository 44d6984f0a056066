#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/placement/directory.h"

// Weighted rendezvous hashing (highest random weight; Thaler and Ravishankar 1998, weights after
// Schindelhauer and Schomaker 2005) as an allocator of a bucket directory. Pure, any thread,
// integers only.
//
// Unlike "bucket take" it has no history: the directory is a function of the nodes, which anybody
// can compute. The price is balance, which is that of random placement.

namespace warmring {

// -log2((u + 1) / 2^64) in units of 2^-48, the same bits in every language:
//   x = u + 1; if x is 2^64 the result is 0.
//   n = leading zeros of x; m = x << n; i = the 8 bits of m below its top bit.
//   d = m - ((256 + i) << 55); t = floor((d << 9) / (256 + i)).             m / (1 + i/256), Q64
//   With mul(a, b) = floor(a * b / 2^64):
//   t2 = mul(t, t); t3 = mul(t2, t); t4 = mul(t2, t2); t5 = mul(t4, t);
//   y = t - floor(t2 / 2) + floor(t3 / 3) - floor(t4 / 4) + floor(t5 / 5).  natural logarithm
//   result = (n + 1) << 48, less T[i], less mul(y, 0xb8aa3b295c17f0bc) >> 15.
// T[i] is log2(1 + i/256) in units of 2^-48, by squaring: z = (256 + i) << 55; 48 times:
// w = floor(z * z / 2^63); if w >= 2^64 the next bit of T[i], from the top, is 1 and z = w >> 1,
// else it is 0 and z = w.
uint64_t NegativeLog2(uint64_t u);

// Each bucket ranks the nodes by NegativeLog2(BucketOrderKey(bucket, id, 0)) / weight, the least
// first, ties by (NodeOrderKey(id), id), and takes the first ones that stand in distinct domains.
// A join moves buckets only to the new node, a removal only from the removed one, beside what the
// domains force. Errors: as for Allocate in directory_allocator.h.
absl::StatusOr<Directory> AllocateByRendezvous(const DirectoryShape& shape,
                                               const std::vector<DirectoryNode>& nodes);

}  // namespace warmring
