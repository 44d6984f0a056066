// Lookup in JavaScript, written from docs/spec/placement.md and from nothing else, against the
// vectors: node lookup.mjs [DIRECTORY]. Ends 1 at the first difference.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { xxh3 } from './xxh3.mjs';

const SPACE = 1n << 64n;

function hashTag(key) {
  const start = key.indexOf('{');
  const end = key.indexOf('}', start + 1);
  return start >= 0 && end > start + 1 ? key.subarray(start + 1, end) : key;
}

function littleEndian(value, size) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes.subarray(0, size);
}

const token = (hashName, index) => xxh3(Buffer.concat([hashName, Buffer.alloc(1), littleEndian(index, 4)]));
const nodeOrder = (id) => xxh3(Buffer.from(id));
const bucketOrder = (bucket, id, rank) => xxh3(littleEndian(bucket, 8), xxh3(Buffer.from(id), BigInt(rank)));
const hashName = (node) => ('hash_name' in node ? Buffer.from(node.hash_name, 'hex') : Buffer.from(node.id));

function compare(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

function tokensOf(node, tokensPerNode) {
  const count = Math.max(Math.floor((tokensPerNode * node.weight_milli + 500) / 1000), 1);
  return Array.from({ length: count }, (_, i) => token(hashName(node), i));
}

// [end, owner] by end; of equal tokens the lowest (order of the node, id) stays.
function deriveRing(nodes, tokensPerNode) {
  const tokens = nodes.flatMap((node) => {
    const order = nodeOrder(node.id);
    return tokensOf(node, tokensPerNode).map((at) => [at, order, node.id]);
  });
  return tokens
    .sort(compare)
    .filter(([at], i) => i === 0 || tokens[i - 1][0] !== at)
    .map(([at, , id]) => [at, id]);
}

// Index of the first end at or clockwise after the point.
function find(ranges, point) {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle][0] < point) low = middle + 1;
    else high = middle;
  }
  return low % ranges.length;
}

const distance = (from, to) => (to - from + SPACE) % SPACE;
const contains = (ranges, point) =>
  ranges.some(([start, end]) => distance(start + 1n, point) <= distance(start + 1n, end));

function route(ranges, moves, point) {
  const [, owner, epoch] = ranges[find(ranges, point)];
  const move = moves.find((candidate) => contains(candidate.ranges.map(([a, b]) => [number(a), number(b)]), point));
  const pending = move?.phase === 'warming' ? move.to : null;
  const previous = move?.phase === 'grace' ? move.from : null;
  return [owner, epoch, pending, previous];
}

function bucketOwner({ bits, owners, nodes }, point) {
  const bucket = Number(point >> BigInt(64 - bits));
  return nodes[parseInt(owners[bucket % owners.length], 36)].id;
}

// ---- The vectors ---------------------------------------------------------------------------------

const number = (text) => BigInt('0x' + text);
const bytes = (text) => Buffer.from(text, 'hex');

function same(what, expected, actual) {
  if (isDeepStrictEqual(expected, actual)) return;
  const text = (value) => JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? part.toString(16) : part));
  console.error(`lookup.mjs: ${what}: the vector says ${text(expected)}, this implementation ${text(actual)}`);
  process.exit(1);
}

const checks = {
  hash({ keys }) {
    for (const { bytes: key, hash, seed, seeded_hash: seeded } of keys) {
      same(`hash of ${key}`, number(hash), xxh3(bytes(key)));
      same(`seeded hash of ${key}`, number(seeded), xxh3(bytes(key), number(seed)));
    }
  },
  tag({ keys }) {
    for (const { key, tag, hash, hash_without_tags: whole } of keys) {
      same(`tag of ${key}`, tag, hashTag(bytes(key)).toString('hex'));
      same(`hash of the tag of ${key}`, number(hash), xxh3(hashTag(bytes(key))));
      same(`hash of ${key}`, number(whole), xxh3(bytes(key)));
    }
  },
  token({ tokens, nodes, buckets }) {
    for (const c of tokens) same(JSON.stringify(c), number(c.token), token(bytes(c.hash_name), c.index));
    for (const c of nodes) same(JSON.stringify(c), number(c.order_key), nodeOrder(c.id));
    for (const c of buckets) same(JSON.stringify(c), number(c.order_key), bucketOrder(c.bucket, c.id, c.rank));
  },
  owner({ derived_rings: rings, memberships, directories }) {
    for (const { name, nodes, tokens_per_node: perNode, ranges, tokens_digest: digest, points, keys } of rings) {
      const ring = deriveRing(nodes, perNode);
      same(`${name}: ranges`, ranges, ring.length);
      const index = new Map(nodes.map(({ id }, i) => [id, i]));
      const all = ring.flatMap(([end, owner]) => [littleEndian(end, 8), littleEndian(index.get(owner), 4)]);
      same(`${name}: tokens_digest`, number(digest), xxh3(Buffer.concat(all)));
      for (const [point, owner] of points) same(`${name}: ${point}`, owner, ring[find(ring, number(point))][1]);
      for (const [key, owner] of keys) same(`${name}: ${key}`, owner, ring[find(ring, xxh3(Buffer.from(key)))][1]);
    }
    for (const { name, ranges, moves, points } of memberships) {
      const parsed = ranges.map(([end, owner, epoch]) => [number(end), owner, epoch]);
      for (const [point, ...expected] of points) {
        same(`${name}: ${point}`, expected, route(parsed, moves, number(point)));
      }
    }
    for (const directory of directories) {
      const { name, points, keys } = directory;
      for (const [point, owner] of points) same(`${name}: ${point}`, owner, bucketOwner(directory, number(point)));
      for (const [key, owner] of keys) same(`${name}: ${key}`, owner, bucketOwner(directory, xxh3(Buffer.from(key))));
    }
  },
};

const directory = process.argv[2] ?? dirname(fileURLToPath(import.meta.url));
for (const [name, check] of Object.entries(checks)) {
  check(JSON.parse(readFileSync(join(directory, `${name}.json`), 'utf8')));
}
console.log(`lookup.mjs: ${Object.keys(checks).join(', ')}: no difference`);
