#!/usr/bin/python3
"""Lookup in Python, written from docs/spec/placement.md and from nothing else, against the vectors.

lookup.py [DIRECTORY]   ends 1 at the first difference; DIRECTORY is where the vectors are
"""

import bisect
import json
import os
import sys

try:
    from xxhash import xxh3_64_intdigest as xxh3
except ImportError:
    sys.exit("lookup.py: the package xxhash is missing: run scripts/setup (python3-xxhash)")


def hash_tag(key):
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    return key[start + 1:end] if start >= 0 and end > start + 1 else key


def token(hash_name, index):
    return xxh3(hash_name + b"\0" + index.to_bytes(4, "little"))


def node_order(node_id):
    return xxh3(node_id.encode())


def bucket_order(bucket, node_id, rank):
    return xxh3(bucket.to_bytes(8, "little"), xxh3(node_id.encode(), rank))


def hash_name(node):
    return bytes.fromhex(node["hash_name"]) if "hash_name" in node else node["id"].encode()


def tokens_of(node, tokens_per_node):
    count = max((tokens_per_node * node["weight_milli"] + 500) // 1000, 1)
    return [token(hash_name(node), i) for i in range(count)]


def derive_ring(nodes, tokens_per_node):
    """[(end, owner)] by end; of equal tokens the lowest (order of the node, id) stays."""
    tokens = [(at, node_order(node["id"]), node["id"])
              for node in nodes for at in tokens_of(node, tokens_per_node)]
    ring = {}
    for at, _, owner in sorted(tokens):
        ring.setdefault(at, owner)
    return list(ring.items())


def find(ends, point):
    """Index of the first end at or clockwise after the point."""
    return bisect.bisect_left(ends, point) % len(ends)


def contains(ranges, point):
    return any((point - start - 1) % 2**64 <= (end - start - 1) % 2**64 for start, end in ranges)


def route(ranges, moves, point):
    _, owner, epoch = ranges[find([end for end, _, _ in ranges], point)]
    pending = previous = None
    for move in moves:
        if contains(pairs(move["ranges"]), point):
            pending = move["to"] if move["phase"] == "warming" else None
            previous = move["from"] if move["phase"] == "grace" else None
    return [owner, epoch, pending, previous]


def bucket_owner(directory, point):
    owners = directory["owners"]
    bucket = point >> (64 - directory["bits"])
    return directory["nodes"][int(owners[bucket % len(owners)], 36)]["id"]


# ---- The vectors ---------------------------------------------------------------------------------


def number(text):
    return int(text, 16)


def pairs(ranges):
    return [(number(start), number(end)) for start, end in ranges]


def same(what, expected, actual):
    if expected != actual:
        sys.exit(f"lookup.py: {what}: the vector says {expected!r}, this implementation {actual!r}")


def check_hash(file):
    for case in file["keys"]:
        key = bytes.fromhex(case["bytes"])
        same(f"hash of {case['bytes']}", number(case["hash"]), xxh3(key))
        same(f"seeded hash of {case['bytes']}", number(case["seeded_hash"]), xxh3(key, number(case["seed"])))


def check_tag(file):
    for case in file["keys"]:
        key = bytes.fromhex(case["key"])
        same(f"tag of {key}", bytes.fromhex(case["tag"]), hash_tag(key))
        same(f"hash of the tag of {key}", number(case["hash"]), xxh3(hash_tag(key)))
        same(f"hash of {key}", number(case["hash_without_tags"]), xxh3(key))


def check_token(file):
    for case in file["tokens"]:
        same(f"token {case}", number(case["token"]), token(bytes.fromhex(case["hash_name"]), case["index"]))
    for case in file["nodes"]:
        same(f"node {case}", number(case["order_key"]), node_order(case["id"]))
    for case in file["buckets"]:
        same(f"bucket {case}", number(case["order_key"]),
             bucket_order(case["bucket"], case["id"], case["rank"]))


def check_owner(file):
    for case in file["derived_rings"]:
        ring = derive_ring(case["nodes"], case["tokens_per_node"])
        same(f"{case['name']}: ranges", case["ranges"], len(ring))
        ends = [end for end, _ in ring]
        index = {node["id"]: i for i, node in enumerate(case["nodes"])}
        digest = xxh3(b"".join(end.to_bytes(8, "little") + index[owner].to_bytes(4, "little")
                               for end, owner in ring))
        same(f"{case['name']}: tokens_digest", number(case["tokens_digest"]), digest)
        for point, owner in case["points"]:
            same(f"{case['name']}: {point}", owner, ring[find(ends, number(point))][1])
        for key, owner in case["keys"]:
            same(f"{case['name']}: {key}", owner, ring[find(ends, xxh3(key.encode()))][1])
    for case in file["memberships"]:
        ranges = [(number(end), owner, epoch) for end, owner, epoch in case["ranges"]]
        for point, *expected in case["points"]:
            same(f"{case['name']}: {point}", expected, route(ranges, case["moves"], number(point)))
    for case in file["directories"]:
        for point, owner in case["points"]:
            same(f"{case['name']}: {point}", owner, bucket_owner(case, number(point)))
        for key, owner in case["keys"]:
            same(f"{case['name']}: {key}", owner, bucket_owner(case, xxh3(key.encode())))


CHECKS = {"hash": check_hash, "tag": check_tag, "token": check_token, "owner": check_owner}


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, check in CHECKS.items():
        with open(os.path.join(directory, name + ".json"), encoding="utf-8") as file:
            check(json.load(file))
    print(f"lookup.py: {', '.join(CHECKS)}: no difference")


if __name__ == "__main__":
    main()
