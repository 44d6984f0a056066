// XXH3_64bits in plain JavaScript, from the published description of the algorithm
// (doc/xxhash_spec.md of the xxHash project). BigInt arithmetic: made to be right and to be read, not
// to be fast.

const MASK64 = (1n << 64n) - 1n;
const u64 = (value) => value & MASK64;

const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;

const SECRET = Uint8Array.from(
  Buffer.from(
    'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
      'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
      'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
      '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e',
    'hex',
  ),
);

const read = (bytes, at, size) => {
  let value = 0n;
  for (let i = size - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i]);
  return value;
};
const read32 = (bytes, at) => read(bytes, at, 4);
const read64 = (bytes, at) => read(bytes, at, 8);
const swap = (value, size) => {
  let out = 0n;
  for (let i = 0; i < size; i++) out = (out << 8n) | ((value >> BigInt(8 * i)) & 0xffn);
  return out;
};
const rotl64 = (value, by) => u64(value << by) | (value >> (64n - by));
const fold = (a, b) => u64(a * b) ^ ((a * b) >> 64n);

function avalanche(h) {
  h = u64((h ^ (h >> 37n)) * PRIME_MX1);
  return h ^ (h >> 32n);
}

function avalancheXxh64(h) {
  h = u64((h ^ (h >> 33n)) * PRIME64_2);
  h = u64((h ^ (h >> 29n)) * PRIME64_3);
  return h ^ (h >> 32n);
}

function upTo16(input, seed) {
  const size = input.length;
  const length = BigInt(size);
  if (size > 8) {
    const low = read64(input, 0) ^ u64((read64(SECRET, 24) ^ read64(SECRET, 32)) + seed);
    const high = read64(input, size - 8) ^ u64((read64(SECRET, 40) ^ read64(SECRET, 48)) - seed);
    return avalanche(u64(length + swap(low, 8) + high + fold(low, high)));
  }
  if (size >= 4) {
    const mixed = seed ^ (swap(seed & 0xffffffffn, 4) << 32n);
    const value = read32(input, size - 4) + (read32(input, 0) << 32n);
    let h = value ^ u64((read64(SECRET, 8) ^ read64(SECRET, 16)) - mixed);
    h = u64((h ^ rotl64(h, 49n) ^ rotl64(h, 24n)) * PRIME_MX2);
    h = u64((h ^ ((h >> 35n) + length)) * PRIME_MX2);
    return h ^ (h >> 28n);
  }
  if (size > 0) {
    const [first, middle, last] = [input[0], input[size >> 1], input[size - 1]].map(BigInt);
    const combined = (first << 16n) | (middle << 24n) | last | (length << 8n);
    return avalancheXxh64(combined ^ u64((read32(SECRET, 0) ^ read32(SECRET, 4)) + seed));
  }
  return avalancheXxh64(seed ^ read64(SECRET, 56) ^ read64(SECRET, 64));
}

function mix16(input, at, secretAt, seed) {
  const low = read64(input, at) ^ u64(read64(SECRET, secretAt) + seed);
  const high = read64(input, at + 8) ^ u64(read64(SECRET, secretAt + 8) - seed);
  return fold(low, high);
}

function upTo128(input, seed) {
  const size = input.length;
  let h = BigInt(size) * PRIME64_1;
  for (let i = (size - 1) >> 5; i >= 0; i--) {
    h += mix16(input, 16 * i, 32 * i, seed) + mix16(input, size - 16 * (i + 1), 32 * i + 16, seed);
  }
  return avalanche(u64(h));
}

function upTo240(input, seed) {
  const size = input.length;
  let h = BigInt(size) * PRIME64_1;
  for (let i = 0; i < 8; i++) h += mix16(input, 16 * i, 16 * i, seed);
  h = avalanche(u64(h));
  for (let i = 8; i < size >> 4; i++) h += mix16(input, 16 * i, 16 * (i - 8) + 3, seed);
  return avalanche(u64(h + mix16(input, size - 16, 136 - 17, seed)));
}

function accumulate(lanes, input, at, secret, secretAt) {
  for (let i = 0; i < 8; i++) {
    const value = read64(input, at + 8 * i);
    const keyed = value ^ read64(secret, secretAt + 8 * i);
    lanes[i ^ 1] = u64(lanes[i ^ 1] + value);
    lanes[i] = u64(lanes[i] + (keyed & 0xffffffffn) * (keyed >> 32n));
  }
}

function above240(input, seed) {
  const size = input.length;
  const secret = Buffer.alloc(SECRET.length);
  for (let at = 0; at < SECRET.length; at += 16) {
    secret.writeBigUInt64LE(u64(read64(SECRET, at) + seed), at);
    secret.writeBigUInt64LE(u64(read64(SECRET, at + 8) - seed), at + 8);
  }
  const lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
  const stripesPerBlock = (SECRET.length - 64) / 8;
  for (let stripe = 0; stripe < Math.floor((size - 1) / 64); stripe++) {
    accumulate(lanes, input, 64 * stripe, secret, 8 * (stripe % stripesPerBlock));
    if ((stripe + 1) % stripesPerBlock !== 0) continue;
    for (let i = 0; i < 8; i++) {
      const h = lanes[i] ^ (lanes[i] >> 47n) ^ read64(secret, SECRET.length - 64 + 8 * i);
      lanes[i] = u64(h * PRIME32_1);
    }
  }
  accumulate(lanes, input, size - 64, secret, SECRET.length - 64 - 7);
  let h = BigInt(size) * PRIME64_1;
  for (let i = 0; i < 8; i += 2) {
    h += fold(lanes[i] ^ read64(secret, 11 + 8 * i), lanes[i + 1] ^ read64(secret, 19 + 8 * i));
  }
  return avalanche(u64(h));
}

// The hash of `input` (a Buffer or Uint8Array) as a BigInt.
export function xxh3(input, seed = 0n) {
  if (input.length <= 16) return upTo16(input, seed);
  if (input.length <= 128) return upTo128(input, seed);
  if (input.length <= 240) return upTo240(input, seed);
  return above240(input, seed);
}
