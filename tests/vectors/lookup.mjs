// Lookup in JavaScript, written from docs/spec/placement.md and from nothing else.
//
// It stands for the implementations that do not exist yet: what it computes must agree with the core
// library on every vector (check_lookup.mjs). Points, versions and measures are BigInt, keys and hash
// names are Buffer. Made to be read, not to be fast.

import { xxh3 } from './xxh3.mjs';

export { xxh3 };
export const SPACE = 1n << 64n;
const modulo = (value) => ((value % SPACE) + SPACE) % SPACE;

export function hashTag(key) {
  const start = key.indexOf('{');
  const end = key.indexOf('}', start + 1);
  return start >= 0 && end > start + 1 ? key.subarray(start + 1, end) : key;
}

export function littleEndian(value, size) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes.subarray(0, size);
}

export const token = (hashName, index) =>
  xxh3(Buffer.concat([hashName, Buffer.alloc(1), littleEndian(index, 4)]));
export const nodeOrder = (id) => xxh3(Buffer.from(id));
export const bucketOrder = (bucket, id, rank) => xxh3(littleEndian(bucket, 8), xxh3(Buffer.from(id), BigInt(rank)));

function tokensOf(node, tokensPerNode) {
  const name = 'hash_name' in node ? Buffer.from(node.hash_name, 'hex') : Buffer.from(node.id);
  const count = Math.max(Math.floor((tokensPerNode * node.weight_milli + 500) / 1000), 1);
  return Array.from({ length: count }, (_, i) => token(name, i));
}

function compare(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

// [end, owner] by end; of equal tokens the lowest (order of the node, id) stays.
export function deriveRing(nodes, tokensPerNode) {
  const tokens = nodes.flatMap((node) => {
    const order = nodeOrder(node.id);
    return tokensOf(node, tokensPerNode).map((at) => [at, order, node.id]);
  });
  tokens.sort(compare);
  return tokens.filter(([at], i) => i === 0 || tokens[i - 1][0] !== at).map(([at, , id]) => [at, id]);
}

// Index of the first range whose end is at or clockwise after the point.
export function find(ranges, point) {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle][0] < point) low = middle + 1;
    else high = middle;
  }
  return low % ranges.length;
}

const sizeMinusOne = ([start, end]) => modulo(end - start - 1n);
const contains = (ranges, point) => ranges.some((range) => modulo(point - range[0] - 1n) <= sizeMinusOne(range));
export const measure = (ranges) => ranges.reduce((sum, range) => sum + sizeMinusOne(range) + 1n, 0n);

// [owner, epoch, pending, previous]; ranges are [end, owner, epoch].
export function route(ranges, moves, point) {
  const [, owner, epoch] = ranges[find(ranges, point)];
  const move = moves.find((candidate) => contains(candidate.ranges, point));
  const pending = move?.phase === 'warming' ? move.to : null;
  const previous = move?.phase === 'grace' ? move.from : null;
  return [owner, epoch, pending, previous];
}

// The override that wins for the key: one for just this key, else the longest prefix; or undefined.
export function ruleOf(overrides, key) {
  const fits = overrides.filter(({ match, bytes }) =>
    match === 'key' ? key.equals(bytes) : key.subarray(0, bytes.length).equals(bytes),
  );
  const rank = ({ match, bytes }) => (match === 'key' ? Infinity : bytes.length);
  return fits.reduce((best, rule) => (best && rank(best) >= rank(rule) ? best : rule), undefined);
}

// [owner, epoch] of a point on the plane of a rule, or on the common plane.
function holder(ranges, overrides, rule, point) {
  if (!rule) return ranges[find(ranges, point)].slice(1);
  if (rule.ranges.length > 0) return [rule.ranges[find(rule.ranges, point)][1], rule.epoch];
  const isShorter = ({ bytes }) => rule.match === 'key' || bytes.length < rule.bytes.length;
  const without = overrides.filter((other) => other !== rule && other.match === 'prefix' && isShorter(other));
  const [owner, epoch] = holder(ranges, overrides, ruleOf(without, rule.bytes), point);
  return [owner, Math.max(epoch, rule.epoch)];
}

// [plane, owner, epoch, pending, previous]; the ranges of moves are [plane, start, end].
export function routeKey(ranges, overrides, moves, key) {
  const [rule, point] = [ruleOf(overrides, key), xxh3(key)];
  const plane = rule?.plane ?? 0;
  const isHere = ([on, ...range]) => on === plane && contains([range], point);
  const move = moves.find((candidate) => candidate.ranges.some(isHere));
  const pending = move?.phase === 'warming' ? move.to : null;
  const previous = move?.phase === 'grace' ? move.from : null;
  return [plane, ...holder(ranges, overrides, rule, point), pending, previous];
}

// The owner of bucket b is the base-36 digit b of `owners`, which repeats.
export function bucketOwner(bits, nodes, owners, point) {
  const bucket = Number(point >> BigInt(64 - bits));
  return nodes[parseInt(owners[bucket % owners.length], 36)].id;
}

// What must not hold two copies. A node that does not say its zone or rack is one of its own.
function domain({ id, zone = '', rack = '' }, level) {
  if (level === 'zone') return zone === '' ? `own\0${id}` : `zone\0${zone}`;
  if (level === 'rack') return rack === '' ? `own\0${id}` : `rack\0${zone}\0${rack}`;
  return id;
}

// The copies of range `first`: `owners` are the nodes that own the ranges, clockwise. Null: refused.
export function preference(owners, first, replication, level, bestEffort) {
  const all = ['zone', 'rack', 'node'];
  const levels = bestEffort ? all.slice(all.indexOf(level)) : [level];
  if (!bestEffort && new Set(owners.map((node) => domain(node, level))).size < replication) return null;
  const copies = [owners[first]];
  for (const each of levels) {
    const used = new Set(copies.map((node) => domain(node, each)));
    for (let step = 1; step < owners.length && copies.length < replication; step++) {
      const node = owners[(first + step) % owners.length];
      if (used.has(domain(node, each))) continue;
      used.add(domain(node, each));
      copies.push(node);
    }
  }
  return Array.from({ length: replication }, (_, i) => copies[i]?.id ?? null);
}

// Maximal ranges of arcs that are in order of their ends: one that wraps comes last.
function normal(arcs) {
  const merged = [];
  for (const [start, end] of arcs) {
    if (merged.length > 0 && merged.at(-1)[1] === start) merged.at(-1)[1] = end;
    else merged.push([start, end]);
  }
  if (merged.length === 1 && merged[0][0] === merged[0][1]) return [[SPACE - 1n, SPACE - 1n]];
  if (merged.length > 1 && merged.at(-1)[1] === merged[0][0]) {
    const [[, end]] = merged.splice(0, 1);
    merged.at(-1)[1] = end;
    return merged;
  }
  // The first arc may hold the end of the space, which makes it the last one.
  const [first] = merged;
  if (first[0] >= first[1] && first[0] !== SPACE - 1n) merged.push(merged.shift());
  return merged;
}

// [[from, to, maximal ranges]] and the number of arcs that change; each side is [end, owner].
export function diff(before, after) {
  const ends = [...new Set([...before, ...after].map(([end]) => end))].sort((a, b) => (a < b ? -1 : 1));
  const changed = new Map();
  let arcs = 0;
  ends.forEach((end, i) => {
    const [from, to] = [before, after].map((side) => side[find(side, end)][1]);
    if (from === to) return;
    arcs += 1;
    const flow = `${from} ${to}`;
    if (!changed.has(flow)) changed.set(flow, [from, to, []]);
    changed.get(flow)[2].push([ends.at(i - 1), end]);
  });
  const moves = [...changed.values()].sort(compare).map(([from, to, ranges]) => [from, to, normal(ranges)]);
  return { moves, arcs };
}

// Each is [history, version], or null.
export const takeSnapshot = (have, offered) =>
  have && have[0] === offered[0] && offered[1] < have[1] ? 'refuse' : 'take';

export function takeDelta(have, history, base, version) {
  const same = have !== null && have[0] === history;
  if (same && version <= have[1]) return 'ignore';
  return same && have[1] === base && version === base + 1n ? 'take' : 'ask for a snapshot';
}

export function install(boundTo, installed, offered, sameDigest) {
  if (offered[0] !== boundTo || offered[1] < installed) return 'refuse';
  return offered[1] > installed || sameDigest ? 'take' : 'refuse';
}
