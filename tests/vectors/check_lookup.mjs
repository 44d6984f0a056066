// Holds lookup.mjs to the vectors: node check_lookup.mjs [DIRECTORY OF THE VECTORS].
// Ends 1 at the first difference, which it names.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import * as adoptedHashes from './adopted_hashes.mjs';
import * as adoptedRings from './adopted_rings.mjs';
import * as lookup from './lookup.mjs';
import * as rendezvous from './rendezvous.mjs';

const number = (text) => BigInt('0x' + text);
const bytes = (text) => Buffer.from(text, 'hex');
const hash = (key) => lookup.xxh3(Buffer.from(key));
const pairs = (ranges) => ranges.map(([start, end]) => [number(start), number(end)]);
const stamp = (value) => value && [value[0], number(value[1])];
const sum = (values) => values.reduce((total, value) => total + value, 0n);

function same(what, expected, actual) {
  if (isDeepStrictEqual(expected, actual)) return;
  const text = (value) => JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? part.toString(16) : part));
  console.error(`check_lookup.mjs: ${what}: the vector says ${text(expected)}, this implementation ${text(actual)}`);
  process.exit(1);
}

function checkHash({ keys, adopted }) {
  for (const key of keys) {
    same(`hash of ${key.bytes}`, number(key.hash), lookup.xxh3(bytes(key.bytes)));
    same(`seeded hash of ${key.bytes}`, number(key.seeded_hash), lookup.xxh3(bytes(key.bytes), number(key.seed)));
  }
  adopted.forEach(checkAdopted);
}

function checkAdopted(vector) {
  const key = bytes(vector.bytes);
  const points = {
    xxh64: adoptedHashes.xxh64(key),
    murmur3: adoptedHashes.murmur3(key),
    ketama: adoptedHashes.ketama(key),
    crc16: adoptedHashes.crc16(lookup.hashTag(key)),
  };
  for (const [name, point] of Object.entries(points)) same(`${name} of ${vector.bytes}`, number(vector[name]), point);
}

function checkTag({ keys }) {
  for (const { key, tag, hash: tagHash, hash_without_tags: wholeHash } of keys) {
    same(`tag of ${key}`, tag, lookup.hashTag(bytes(key)).toString('hex'));
    same(`hash of the tag of ${key}`, number(tagHash), lookup.xxh3(lookup.hashTag(bytes(key))));
    same(`hash of ${key}`, number(wholeHash), lookup.xxh3(bytes(key)));
  }
}

function checkToken({ tokens, nodes, buckets }) {
  for (const c of tokens) same(JSON.stringify(c), number(c.token), lookup.token(bytes(c.hash_name), c.index));
  for (const c of nodes) same(JSON.stringify(c), number(c.order_key), lookup.nodeOrder(c.id));
  for (const c of buckets) same(JSON.stringify(c), number(c.order_key), lookup.bucketOrder(c.bucket, c.id, c.rank));
}

function checkOwners({ name, points, keys }, ownerOf) {
  for (const [point, owner] of points) same(`${name}: ${point}`, owner, ownerOf(number(point)));
  for (const [key, owner] of keys) same(`${name}: ${key}`, owner, ownerOf(hash(key)));
}

function checkOwner({ derived_rings: rings, memberships, directories }) {
  for (const ring of rings) {
    const ranges = lookup.deriveRing(ring.nodes, ring.tokens_per_node);
    same(`${ring.name}: ranges`, ring.ranges, ranges.length);
    const index = new Map(ring.nodes.map(({ id }, i) => [id, i]));
    const all = ranges.flatMap(([end, owner]) => [
      lookup.littleEndian(end, 8),
      lookup.littleEndian(index.get(owner), 4),
    ]);
    same(`${ring.name}: tokens_digest`, number(ring.tokens_digest), lookup.xxh3(Buffer.concat(all)));
    checkOwners(ring, (point) => ranges[lookup.find(ranges, point)][1]);
  }
  for (const { name, ranges, moves, points } of memberships) {
    const parsed = ranges.map(([end, ...rest]) => [number(end), ...rest]);
    const parsedMoves = moves.map((move) => ({ ...move, ranges: pairs(move.ranges) }));
    for (const [point, ...expected] of points) {
      same(`${name}: ${point}`, expected, lookup.route(parsed, parsedMoves, number(point)));
    }
  }
  for (const directory of directories) {
    const { bits, nodes, owners } = directory;
    checkOwners(directory, (point) => lookup.bucketOwner(bits, nodes, owners, point));
  }
}

function checkOverride({ cases }) {
  for (const { name, ranges, overrides, moves, keys } of cases) {
    const parsed = ranges.map(([end, ...rest]) => [number(end), ...rest]);
    const rules = overrides.map((rule) => ({
      ...rule,
      bytes: bytes(rule.bytes),
      ranges: rule.ranges.map(([end, owner]) => [number(end), owner]),
    }));
    const parsedMoves = moves.map((move) => ({
      ...move,
      ranges: move.ranges.map(([plane, start, end]) => [plane, number(start), number(end)]),
    }));
    for (const [key, ...expected] of keys) {
      same(`${name}: ${key}`, expected, lookup.routeKey(parsed, rules, parsedMoves, bytes(key)));
    }
  }
}

function checkPreference({ walks, derived_rings: rings }) {
  const listsOf = ({ nodes, replication, level, best_effort: bestEffort }, ids) => {
    const byId = new Map(nodes.map((node) => [node.id, node]));
    const owners = ids.map((id) => byId.get(id));
    return owners.map((_, i) => lookup.preference(owners, i, replication, level, bestEffort));
  };
  for (const walk of walks) {
    const lists = listsOf(walk, [...walk.owners]);
    same(`${walk.name}: lists`, walk.refused === undefined ? walk.lists : lists.map(() => null), lists);
  }
  for (const ring of rings) {
    const ranges = lookup.deriveRing(ring.nodes, ring.tokens_per_node);
    const lists = listsOf(ring, ranges.map(([, owner]) => owner));
    const index = new Map([[null, 0xffffffff], ...ring.nodes.map(({ id }, i) => [id, i])]);
    const all = lists.flat().map((id) => lookup.littleEndian(index.get(id), 4));
    same(`${ring.name}: lists_digest`, number(ring.lists_digest), lookup.xxh3(Buffer.concat(all)));
    for (const [point, list] of ring.points) {
      same(`${ring.name}: ${point}`, list, lists[lookup.find(ranges, number(point))]);
    }
  }
}

function checkMoves(vector, { moves }) {
  const expected = vector.moves.map(({ from, to, ranges }) => [from, to, pairs(ranges)]);
  same(`${vector.name}: moves`, expected, moves);
  const measures = moves.map(([, , ranges]) => lookup.measure(ranges));
  same(`${vector.name}: measures`, vector.moves.map(({ measure }) => number(measure)), measures);
  same(`${vector.name}: moved`, number(vector.moved), sum(measures));
}

function checkDiff({ memberships, derived_rings: rings, directories, modulo }) {
  for (const c of memberships) {
    const [before, after] = [c.before, c.after].map((side) => side.map(([end, owner]) => [number(end), owner]));
    checkMoves(c, lookup.diff(before, after));
  }
  for (const c of rings) {
    const [before, after] = [c.before, c.after].map((nodes) => lookup.deriveRing(nodes, c.tokens_per_node));
    const { moves, arcs } = lookup.diff(before, after);
    const flows = moves.map(([from, to, ranges]) => [from, to, ranges.length, lookup.measure(ranges)]);
    same(
      `${c.name}: flows`,
      c.flows.map(({ from, to, ranges, measure }) => [from, to, ranges, number(measure)]),
      flows,
    );
    same(`${c.name}: arcs`, [c.moved_arcs, c.moved_ranges], [arcs, flows.reduce((n, [, , ranges]) => n + ranges, 0)]);
    const moved = sum(flows.map(([, , , measure]) => measure));
    same(`${c.name}: moved`, [number(c.moved), c.moved_ppm], [moved, Number((moved * 1000000n) / lookup.SPACE)]);
  }
  for (const c of directories) {
    const side = (nodes, owners) =>
      Array.from(owners, (owner, bucket) => [
        ((BigInt(bucket) + 1n) << BigInt(64 - c.bits)) - 1n,
        nodes[parseInt(owner, 36)].id,
      ]);
    checkMoves(c, lookup.diff(side(c.nodes_before, c.owners_before), side(c.nodes_after, c.owners_after)));
  }
  for (const c of modulo) {
    let moved = 0;
    for (let h = 0; h < c.hashes_below; h++) if (h % c.nodes_before !== h % c.nodes_after) moved += 1;
    same(JSON.stringify(c), [c.moved, c.moved_percent], [moved, Math.floor((moved * 100) / c.hashes_below)]);
  }
}

// On a ring of derived tokens the owners are those of a new ring, whatever has been before.
function checkAllocator({ ring_stories: stories }) {
  for (const story of stories) {
    let before = null;
    for (const step of story.steps) {
      const what = `${story.name}: ${step.change}`;
      const after = step.ranges.map(([end, owner]) => [number(end), owner]);
      if (story.allocator === 'standard') {
        same(what, [], lookup.diff(lookup.deriveRing(step.nodes, story.tokens_per_node), after).moves);
      }
      const { moves } = lookup.diff(before ?? after, after);
      same(`${what}: moved`, number(step.moved), sum(moves.map(([, , ranges]) => lookup.measure(ranges))));
      before = after;
    }
  }
}

function checkRendezvous({ logarithms, directories }) {
  for (const [value, logarithm] of logarithms) {
    same(`logarithm of ${value}`, number(logarithm), rendezvous.negativeLog2(number(value)));
  }
  for (const { name, bits, ranks, nodes, owners } of directories) {
    const digits = new Map([[null, '.'], ...nodes.map(({ id }, i) => [id, i.toString(36)])]);
    const slots = rendezvous.allocate(bits, ranks, nodes).flat();
    same(name, owners, slots.map((id) => digits.get(id)).join(''));
  }
}

// The ring of a file from its nodes where points follow from names, and else as the vector has it.
function adoptedRing({ format, nodes, ranges, tokens }) {
  const points = format.startsWith('ketama') ? adoptedRings.ketamaPoints : adoptedRings.envoyPoints;
  if (format === 'tokens' || format === 'cassandra-tokens') return tokens.map(([end, owner]) => [number(end), owner]);
  const ring = nodes.flatMap((node) =>
    points(bytes(node.hash_name), ranges / nodes.length).map((point) => [point, node.id]),
  );
  return ring.sort(([a], [b]) => (a < b ? -1 : 1));
}

function checkImport({ files }) {
  for (const file of files) {
    const ring = adoptedRing(file);
    const index = new Map(file.nodes.map(({ id }, i) => [id, i]));
    const all = ring.flatMap(([end, owner]) => [lookup.littleEndian(end, 8), lookup.littleEndian(index.get(owner), 4)]);
    same(`${file.name}: ranges`, file.ranges, ring.length);
    const listed = file.tokens?.map(([end, owner]) => [number(end), owner]) ?? ring;
    same(`${file.name}: tokens`, listed, ring);
    same(`${file.name}: tokens_digest`, number(file.tokens_digest), lookup.xxh3(Buffer.concat(all)));
    const hashOf = { ...adoptedHashes, xxh3: lookup.xxh3 }[file.hash];
    for (const [key, owner] of file.keys) {
      const hashed = file.hash_tags ? lookup.hashTag(Buffer.from(key)) : Buffer.from(key);
      same(`${file.name}: ${key}`, owner, ring[lookup.find(ring, hashOf(hashed))][1]);
    }
  }
}

function checkVersion({ snapshots, deltas, owners }) {
  for (const c of snapshots) {
    same(JSON.stringify(c), c.action, lookup.takeSnapshot(stamp(c.have), stamp(c.offered)));
  }
  for (const c of deltas) {
    same(JSON.stringify(c), c.action, lookup.takeDelta(stamp(c.have), c.history, number(c.from), number(c.to)));
  }
  for (const c of owners) {
    const action = lookup.install(c.bound_to, number(c.installed), stamp(c.offered), c.same_digest);
    same(JSON.stringify(c), c.action, action);
  }
}

const checks = {
  hash: checkHash,
  tag: checkTag,
  token: checkToken,
  owner: checkOwner,
  override: checkOverride,
  preference: checkPreference,
  diff: checkDiff,
  allocator: checkAllocator,
  rendezvous: checkRendezvous,
  import: checkImport,
  version: checkVersion,
};
const directory = process.argv[2] ?? dirname(fileURLToPath(import.meta.url));
for (const [name, check] of Object.entries(checks)) {
  check(JSON.parse(readFileSync(join(directory, `${name}.json`), 'utf8')));
}
console.log(`check_lookup.mjs: ${Object.keys(checks).join(', ')}: no difference`);
