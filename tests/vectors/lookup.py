"""Lookup in Python, written from docs/spec/placement.md and from nothing else.

It stands for the implementations that do not exist yet: what it computes must agree with the core
library on every vector (check_lookup.py). Made to be read, not to be fast.
"""

import bisect

from xxhash import xxh3_64_intdigest as xxh3

SPACE = 2**64


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
    return any((point - start - 1) % SPACE <= (end - start - 1) % SPACE for start, end in ranges)


def route(ranges, moves, point):
    """[owner, epoch, pending, previous]; ranges are (end, owner, epoch), moves have parsed ranges."""
    _, owner, epoch = ranges[find([end for end, _, _ in ranges], point)]
    move = next((move for move in moves if contains(move["ranges"], point)), None)
    pending = move["to"] if move and move["phase"] == "warming" else None
    previous = move["from"] if move and move["phase"] == "grace" else None
    return [owner, epoch, pending, previous]


def rule_of(overrides, key):
    """The override that wins for the key: one for just this key, else the longest prefix; or None."""
    fits = [rule for rule in overrides
            if (key == rule["bytes"] if rule["match"] == "key" else key.startswith(rule["bytes"]))]
    return max(fits, key=lambda rule: (rule["match"] == "key", len(rule["bytes"])), default=None)


def holder(ranges, overrides, rule, point):
    """(owner, epoch) of a point on the plane of a rule, or on the common plane."""
    if rule is None:
        return ranges[find([end for end, _, _ in ranges], point)][1:]
    if rule["ranges"]:
        return rule["ranges"][find([end for end, _ in rule["ranges"]], point)][1], rule["epoch"]
    without = [other for other in overrides if other["match"] == "prefix" and
               (rule["match"] == "key" or len(other["bytes"]) < len(rule["bytes"]))]
    owner, epoch = holder(ranges, overrides, rule_of(without, rule["bytes"]), point)
    return owner, max(epoch, rule["epoch"])


def route_key(ranges, overrides, moves, key):
    """[plane, owner, epoch, pending, previous]; the ranges of moves are (plane, start, end)."""
    rule, point = rule_of(overrides, key), xxh3(key)
    plane = rule["plane"] if rule else 0
    owner, epoch = holder(ranges, overrides, rule, point)
    move = next((move for move in moves
                 if contains([range_[1:] for range_ in move["ranges"] if range_[0] == plane], point)), None)
    pending = move["to"] if move and move["phase"] == "warming" else None
    previous = move["from"] if move and move["phase"] == "grace" else None
    return [plane, owner, epoch, pending, previous]


def bucket_owner(bits, nodes, owners, point):
    """The owner of bucket b is the base-36 digit b of `owners`, which repeats."""
    bucket = point >> (64 - bits)
    return nodes[int(owners[bucket % len(owners)], 36)]["id"]


def domain(node, level):
    """What must not hold two copies. A node that does not say its zone or rack is one of its own."""
    zone, rack = node.get("zone", ""), node.get("rack", "")
    if level == "zone":
        return ("zone", zone) if zone else ("own", node["id"])
    if level == "rack":
        return ("rack", zone, rack) if rack else ("own", node["id"])
    return ("node", node["id"])


def preference(owners, first, replication, level, best_effort):
    """The copies of range `first`: `owners` are the nodes that own the ranges, clockwise."""
    levels = ["zone", "rack", "node"][["zone", "rack", "node"].index(level):]
    if not best_effort:
        levels = levels[:1]
        if len({domain(node, level) for node in owners}) < replication:
            return None
    copies = [owners[first]]
    for each in levels:
        for node in owners[first + 1:] + owners[:first]:
            used = {domain(copy, each) for copy in copies}
            if len(copies) < replication and domain(node, each) not in used:
                copies.append(node)
    return [node["id"] for node in copies] + [None] * (replication - len(copies))


def normal(ranges):
    """Maximal disjoint ranges in order of their first point; one that wraps comes last."""
    merged = []
    for start, end in sorted(((start + 1) % SPACE, end) for start, end in ranges):
        if merged and merged[-1][1] + 1 == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    if len(merged) > 1 and (merged[-1][1] + 1) % SPACE == merged[0][0]:
        merged[-1] = (merged[-1][0], merged.pop(0)[1])
    if len(merged) == 1 and (merged[0][1] + 1) % SPACE == merged[0][0]:
        return [(SPACE - 1, SPACE - 1)]
    return [((start - 1) % SPACE, end) for start, end in merged]


def measure(ranges):
    return sum((end - start - 1) % SPACE + 1 for start, end in ranges)


def diff(before, after):
    """{(from, to): maximal ranges} and the number of arcs that change; each side is [(end, owner)]."""
    old_ends, new_ends = [end for end, _ in before], [end for end, _ in after]
    ends = sorted({*old_ends, *new_ends})
    changed = {}
    for start, end in zip(ends[-1:] + ends[:-1], ends):
        nodes = before[find(old_ends, end)][1], after[find(new_ends, end)][1]
        if nodes[0] != nodes[1]:
            changed.setdefault(nodes, []).append((start, end))
    arcs = sum(len(ranges) for ranges in changed.values())
    return {nodes: normal(changed[nodes]) for nodes in sorted(changed)}, arcs


def take_snapshot(have, offered):
    """Each is (history, version), or None."""
    return "refuse" if have and have[0] == offered[0] and offered[1] < have[1] else "take"


def take_delta(have, history, base, version):
    if have and have[0] == history and version <= have[1]:
        return "ignore"
    fits = have == (history, base) and version == base + 1
    return "take" if fits else "ask for a snapshot"


def install(bound_to, installed, offered, same_digest):
    if offered[0] != bound_to or offered[1] < installed:
        return "refuse"
    return "take" if offered[1] > installed or same_digest else "refuse"
