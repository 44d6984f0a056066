// The hash functions of fleets that are adopted as they stand: key (Buffer) to point, as in section 2.

import { createHash } from 'node:crypto';

const MASK64 = (1n << 64n) - 1n;
const u64 = (value) => value & MASK64;
const rotl64 = (value, by) => u64(value << by) | (value >> (64n - by));

export const ketama = (key) => BigInt(createHash('md5').update(key).digest().readUInt32LE(0)) << 32n;

export function crc16(tag) {
  let crc = 0;
  for (const byte of tag) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return BigInt(crc % 16384) << 50n;
}

const XXH64_PRIMES = [
  0x9e3779b185ebca87n,
  0xc2b2ae3d27d4eb4fn,
  0x165667b19e3779f9n,
  0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
];

export function xxh64(key) {
  const [p1, p2, p3, p4, p5] = XXH64_PRIMES;
  const round = (lane, word) => u64(rotl64(u64(lane + word * p2), 31n) * p1);
  let at = 0;
  let h = p5;
  if (key.length >= 32) {
    let lanes = [u64(p1 + p2), p2, 0n, u64(-p1)];
    for (; at + 32 <= key.length; at += 32) {
      lanes = lanes.map((lane, i) => round(lane, key.readBigUInt64LE(at + 8 * i)));
    }
    h = [1n, 7n, 12n, 18n].reduce((sum, by, i) => u64(sum + rotl64(lanes[i], by)), 0n);
    for (const lane of lanes) h = u64((h ^ round(0n, lane)) * p1 + p4);
  }
  h = u64(h + BigInt(key.length));
  for (; at + 8 <= key.length; at += 8) h = u64(rotl64(h ^ round(0n, key.readBigUInt64LE(at)), 27n) * p1 + p4);
  for (; at + 4 <= key.length; at += 4) h = u64(rotl64(h ^ u64(BigInt(key.readUInt32LE(at)) * p1), 23n) * p2 + p3);
  for (; at < key.length; at += 1) h = u64(rotl64(h ^ u64(BigInt(key[at]) * p5), 11n) * p1);
  h = u64((h ^ (h >> 33n)) * p2);
  h = u64((h ^ (h >> 29n)) * p3);
  return h ^ (h >> 32n);
}

// Each byte is widened with its sign, as Java does it and Murmur3 proper does not.
const signedTail = (tail) => tail.reduce((word, byte, i) => word ^ u64(BigInt((byte << 24) >> 24) << BigInt(8 * i)), 0n);

export function murmur3(key) {
  const [c1, c2] = [0x87c37b91114253d5n, 0x4cf5ad432745937fn];
  const scramble1 = (word) => u64(rotl64(u64(word * c1), 31n) * c2);
  const scramble2 = (word) => u64(rotl64(u64(word * c2), 33n) * c1);
  const finish = (h) => {
    h = u64((h ^ (h >> 33n)) * 0xff51afd7ed558ccdn);
    h = u64((h ^ (h >> 33n)) * 0xc4ceb9fe1a85ec53n);
    return h ^ (h >> 33n);
  };
  if (key.length === 0) return 0n; // the token -2^63
  let [h1, h2] = [0n, 0n];
  const whole = key.length - (key.length % 16);
  for (let at = 0; at < whole; at += 16) {
    h1 = u64((rotl64(h1 ^ scramble1(key.readBigUInt64LE(at)), 27n) + h2) * 5n + 0x52dce729n);
    h2 = u64((rotl64(h2 ^ scramble2(key.readBigUInt64LE(at + 8)), 31n) + h1) * 5n + 0x38495ab5n);
  }
  h2 ^= scramble2(signedTail(key.subarray(whole + 8))) ^ BigInt(key.length);
  h1 ^= scramble1(signedTail(key.subarray(whole, whole + 8))) ^ BigInt(key.length);
  h1 = u64(h1 + h2);
  h2 = u64(h2 + h1);
  const token = u64(finish(h1) + finish(h2));
  return (token === 1n << 63n ? (1n << 63n) - 1n : token) ^ (1n << 63n);
}
