"""Weighted rendezvous, written from section 9 of the specification: a directory without history."""

from fractions import Fraction

from lookup import bucket_order, node_order


def mul(a, b):
    return a * b >> 64


def log2_table(i):
    z, bits = (256 + i) << 55, 0
    for _ in range(48):
        w = z * z >> 63
        one = w >> 64 > 0
        bits, z = bits << 1 | one, w >> 1 if one else w
    return bits


TABLE = [log2_table(i) for i in range(256)]


def negative_log2(u):
    """-log2((u + 1) / 2^64) in units of 2^-48."""
    x = u + 1
    if x == 2**64:
        return 0
    n = 64 - x.bit_length()
    m = x << n
    i = m >> 55 & 0xff
    t = (m - ((256 + i) << 55) << 9) // (256 + i)
    t2 = mul(t, t)
    t3, t4 = mul(t2, t), mul(t2, t2)
    y = t - t2 // 2 + t3 // 3 - t4 // 4 + mul(t4, t) // 5
    return ((n + 1) << 48) - TABLE[i] - (mul(y, 0xb8aa3b295c17f0bc) >> 15)


def allocate(bits, ranks, nodes):
    """Ids by bucket and rank, None for nobody."""
    nodes = sorted(nodes, key=lambda node: (node_order(node["id"]), node["id"]))
    domains = [node.get("domain", ("own", node["id"])) for node in nodes]
    filled = min(ranks, len(nodes))
    depth = next(k for k in range(1, ranks + 1)
                 if sum(min(k, domains.count(domain)) for domain in set(domains)) >= filled)
    owners = []
    for bucket in range(2**bits):
        bids = sorted((Fraction(negative_log2(bucket_order(bucket, node["id"], 0)), node["weight_milli"]), i)
                      for i, node in enumerate(nodes))
        chosen = []
        for _, i in bids:
            if len(chosen) < filled and sum(domains[other] == domains[i] for other in chosen) < depth:
                chosen.append(i)
        owners.append([nodes[i]["id"] for i in chosen] + [None] * (ranks - filled))
    return owners
