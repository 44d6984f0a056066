// The points of rings that are adopted as they stand, as in section 5.

import { createHash } from 'node:crypto';
import { xxh64 } from './adopted_hashes.mjs';

// Four points of 32 bits from each digest of "name-0", "name-1", ...
export function ketamaPoints(name, count) {
  const points = [];
  for (let group = 0; points.length < count; group++) {
    const digest = createHash('md5').update(name).update(`-${group}`).digest();
    for (let at = 0; at < 16; at += 4) points.push(BigInt(digest.readUInt32LE(at)) << 32n);
  }
  return points;
}

export const envoyPoints = (name, count) =>
  Array.from({ length: count }, (_, i) => xxh64(Buffer.concat([name, Buffer.from(`_${i}`)])));
