// Weighted rendezvous, written from section 9 of the specification: a directory without history.

import { bucketOrder, nodeOrder } from './lookup.mjs';

const mul = (a, b) => (a * b) >> 64n;

const table = Array.from({ length: 256 }, (_, i) => {
  let z = BigInt(256 + i) << 55n;
  let bits = 0n;
  for (let bit = 0; bit < 48; bit++) {
    const w = (z * z) >> 63n;
    const one = w >> 64n;
    bits = (bits << 1n) | one;
    z = w >> one;
  }
  return bits;
});

// -log2((u + 1) / 2^64) in units of 2^-48.
export function negativeLog2(u) {
  const x = u + 1n;
  if (x >> 64n) return 0n;
  const n = BigInt(64 - x.toString(2).length);
  const m = x << n;
  const i = (m >> 55n) & 0xffn;
  const t = ((m - ((256n + i) << 55n)) << 9n) / (256n + i);
  const t2 = mul(t, t);
  const t3 = mul(t2, t);
  const t4 = mul(t2, t2);
  const y = t - t2 / 2n + t3 / 3n - t4 / 4n + mul(t4, t) / 5n;
  return ((n + 1n) << 48n) - table[Number(i)] - (mul(y, 0xb8aa3b295c17f0bcn) >> 15n);
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// Ids by bucket and rank, null for nobody.
export function allocate(bits, ranks, nodes) {
  const domainOf = ({ id, domain }) => (domain === undefined ? `own ${id}` : `named ${domain}`);
  const inOrder = nodes
    .map((node) => ({ ...node, order: nodeOrder(node.id), domain: domainOf(node) }))
    .sort((a, b) => compare(a.order, b.order) || compare(a.id, b.id));
  const members = new Map();
  for (const { domain } of inOrder) members.set(domain, (members.get(domain) ?? 0) + 1);
  const filled = Math.min(ranks, nodes.length);
  const room = (depth) => [...members.values()].reduce((sum, count) => sum + Math.min(depth, count), 0);
  let depth = 1;
  while (room(depth) < filled) depth += 1;
  return Array.from({ length: 2 ** bits }, (_, bucket) => {
    const bids = inOrder.map((node) => ({ node, cost: negativeLog2(bucketOrder(bucket, node.id, 0)) }));
    bids.sort((a, b) => compare(a.cost * BigInt(b.node.weight_milli), b.cost * BigInt(a.node.weight_milli)));
    const chosen = [];
    for (const { node } of bids) {
      const same = chosen.filter(({ domain }) => domain === node.domain).length;
      if (chosen.length < filled && same < depth) chosen.push(node);
    }
    return Array.from({ length: ranks }, (_unused, rank) => chosen[rank]?.id ?? null);
  });
}
