#!/usr/bin/python3
"""Holds lookup.py to the vectors: check_lookup.py [DIRECTORY OF THE VECTORS].

Ends 1 at the first difference, which it names.
"""

import json
import os
import sys

sys.dont_write_bytecode = True
try:
    import adopted_hashes
    import adopted_rings
    import allocate
    import allocate_ranks
    import deliberate
    import derived_ring
    import lookup
    import rendezvous
except ImportError as missing:
    sys.exit(f"check_lookup.py: {missing}: run scripts/setup (python3-xxhash)")

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def number(text):
    return int(text, 16)


def pairs(ranges):
    return [(number(start), number(end)) for start, end in ranges]


def same(what, expected, actual):
    if expected != actual:
        sys.exit(f"check_lookup.py: {what}: the vector says {expected!r}, this implementation {actual!r}")


def check_hash(file):
    for case in file["keys"]:
        key = bytes.fromhex(case["bytes"])
        same(f"hash of {case['bytes']}", number(case["hash"]), lookup.xxh3(key))
        same(f"seeded hash of {case['bytes']}", number(case["seeded_hash"]), lookup.xxh3(key, number(case["seed"])))
    for case in file["adopted"]:
        key = bytes.fromhex(case["bytes"])
        points = [adopted_hashes.xxh64(key), adopted_hashes.murmur3(key), adopted_hashes.ketama(key),
                  adopted_hashes.crc16(lookup.hash_tag(key))]
        same(f"adopted hashes of {case['bytes']}",
             [number(case[function]) for function in ("xxh64", "murmur3", "ketama", "crc16")], points)


def check_tag(file):
    for case in file["keys"]:
        key = bytes.fromhex(case["key"])
        same(f"tag of {key}", bytes.fromhex(case["tag"]), lookup.hash_tag(key))
        same(f"hash of the tag of {key}", number(case["hash"]), lookup.xxh3(lookup.hash_tag(key)))
        same(f"hash of {key}", number(case["hash_without_tags"]), lookup.xxh3(key))


def check_token(file):
    for case in file["tokens"]:
        same(f"token {case}", number(case["token"]), lookup.token(bytes.fromhex(case["hash_name"]), case["index"]))
    for case in file["nodes"]:
        same(f"node {case}", number(case["order_key"]), lookup.node_order(case["id"]))
    for case in file["buckets"]:
        same(f"bucket {case}", number(case["order_key"]),
             lookup.bucket_order(case["bucket"], case["id"], case["rank"]))


def check_owner(file):
    for case in file["derived_rings"]:
        ring = lookup.derive_ring(case["nodes"], case["tokens_per_node"])
        same(f"{case['name']}: ranges", case["ranges"], len(ring))
        ends = [end for end, _ in ring]
        index = {node["id"]: i for i, node in enumerate(case["nodes"])}
        digest = lookup.xxh3(b"".join(end.to_bytes(8, "little") + index[owner].to_bytes(4, "little")
                               for end, owner in ring))
        same(f"{case['name']}: tokens_digest", number(case["tokens_digest"]), digest)
        for point, owner in case["points"]:
            same(f"{case['name']}: {point}", owner, ring[lookup.find(ends, number(point))][1])
        for key, owner in case["keys"]:
            same(f"{case['name']}: {key}", owner, ring[lookup.find(ends, lookup.xxh3(key.encode()))][1])
    for case in file["memberships"]:
        ranges = [(number(end), *rest) for end, *rest in case["ranges"]]
        moves = [{**move, "ranges": pairs(move["ranges"])} for move in case["moves"]]
        for point, *expected in case["points"]:
            same(f"{case['name']}: {point}", expected, lookup.route(ranges, moves, number(point)))
    for case in file["directories"]:
        directory = case["bits"], case["nodes"], case["owners"]
        for point, owner in case["points"]:
            same(f"{case['name']}: {point}", owner, lookup.bucket_owner(*directory, number(point)))
        for key, owner in case["keys"]:
            same(f"{case['name']}: {key}", owner, lookup.bucket_owner(*directory, lookup.xxh3(key.encode())))


def check_override(file):
    for case in file["cases"]:
        ranges = [(number(end), owner, epoch) for end, owner, epoch in case["ranges"]]
        rules = [rule | {"bytes": bytes.fromhex(rule["bytes"]),
                         "ranges": [(number(end), owner) for end, owner in rule["ranges"]]}
                 for rule in case["overrides"]]
        moves = [move | {"ranges": [(plane, number(start), number(end)) for plane, start, end in move["ranges"]]}
                 for move in case["moves"]]
        for key, *expected in case["keys"]:
            same(f"{case['name']}: {key}", expected, lookup.route_key(ranges, rules, moves, bytes.fromhex(key)))


def check_preference(file):
    for case in file["walks"] + file["derived_rings"]:
        nodes = {node["id"]: node for node in case["nodes"]}
        rule = case["replication"], case["level"], case["best_effort"]
        if "tokens_per_node" not in case:
            owners = [nodes[owner] for owner in case["owners"]]
            lists = [lookup.preference(owners, i, *rule) for i in range(len(owners))]
            if "refused" in case:
                same(f"{case['name']}: refused", [None] * len(owners), lists)
            else:
                same(f"{case['name']}: lists", case["lists"], lists)
            continue
        ring = lookup.derive_ring(case["nodes"], case["tokens_per_node"])
        owners, ends = [nodes[owner] for _, owner in ring], [end for end, _ in ring]
        lists = [lookup.preference(owners, i, *rule) for i in range(len(owners))]
        index = {None: 2**32 - 1, **{node: i for i, node in enumerate(nodes)}}
        digest = lookup.xxh3(b"".join(index[node].to_bytes(4, "little") for copies in lists for node in copies))
        same(f"{case['name']}: lists_digest", number(case["lists_digest"]), digest)
        for point, copies in case["points"]:
            same(f"{case['name']}: {point}", copies, lists[lookup.find(ends, number(point))])


def check_moves(name, case, moves):
    same(f"{name}: moves", [(move["from"], move["to"], pairs(move["ranges"])) for move in case["moves"]],
         [(source, target, ranges) for (source, target), ranges in moves.items()])
    for move in case["moves"]:
        same(f"{name}: measure", number(move["measure"]), lookup.measure(moves[move["from"], move["to"]]))
    same(f"{name}: moved", number(case["moved"]), sum(map(lookup.measure, moves.values())))


def bucket_ranges(bits, nodes, owners):
    return [(((bucket + 1) << (64 - bits)) - 1, nodes[int(owner, 36)]["id"])
            for bucket, owner in enumerate(owners)]


def check_diff(file):
    for case in file["memberships"]:
        before, after = ([(number(end), owner) for end, owner in case[side]] for side in ("before", "after"))
        check_moves(case["name"], case, lookup.diff(before, after)[0])
    for case in file["derived_rings"]:
        moves, arcs = lookup.diff(*(lookup.derive_ring(case[side], case["tokens_per_node"]) for side in ("before", "after")))
        moved = sum(map(lookup.measure, moves.values()))
        same(f"{case['name']}: arcs", [case["moved_arcs"], case["moved_ranges"]],
             [arcs, sum(map(len, moves.values()))])
        same(f"{case['name']}: moved", [number(case["moved"]), case["moved_ppm"]],
             [moved, moved * 10**6 // lookup.SPACE])
        same(f"{case['name']}: flows",
             [(flow["from"], flow["to"], flow["ranges"], number(flow["measure"])) for flow in case["flows"]],
             [(*nodes, len(ranges), lookup.measure(ranges)) for nodes, ranges in moves.items()])
    for case in file["directories"]:
        sides = (bucket_ranges(case["bits"], case["nodes_" + side], case["owners_" + side])
                 for side in ("before", "after"))
        check_moves(case["name"], case, lookup.diff(*sides)[0])
    for case in file["modulo"]:
        moved = sum(h % case["nodes_before"] != h % case["nodes_after"] for h in range(case["hashes_below"]))
        same(f"modulo {case}", [case["moved"], case["moved_percent"]],
             [moved, moved * 100 // case["hashes_below"]])


def slots_text(nodes, owners):
    ids = {node["id"]: DIGITS[i] for i, node in enumerate(nodes)} | {None: "."}
    return "".join(ids[owner] for copies in owners for owner in copies)


def check_allocator(file):
    """On a ring of derived tokens the owners are those of a new ring, whatever has been before."""
    for story in file["stories"]:
        owners, nodes = None, []
        for step in story["steps"]:
            after = allocate.allocate(story["bits"], step["nodes"], owners, nodes)
            ids = [node["id"] for node in step["nodes"]]
            same(f"{story['name']}: {step['change']}", step["owners"],
                 "".join(DIGITS[ids.index(owner)] for owner in after))
            same(f"{story['name']}: {step['change']}: moved", step["moved"],
                 sum(old != new for old, new in zip(owners or after, after)))
            one_rank = allocate_ranks.allocate((story["bits"], 1, True), step["nodes"],
                                               owners and [[owner] for owner in owners], nodes,
                                               {"balance": "added_only"})
            same(f"{story['name']}: {step['change']}: as one rank of several", step["owners"],
                 slots_text(step["nodes"], one_rank))
            owners, nodes = after, step["nodes"]
    for story in file["ring_stories"]:
        before, nodes = None, []
        for step in story["steps"]:
            after = [(number(end), owner) for end, owner in step["ranges"]]
            rule = step["nodes"], story["tokens_per_node"]
            if story["allocator"] == "standard":
                derived = lookup.derive_ring(*rule)
                same(f"{story['name']}: {step['change']}: owners", {}, lookup.diff(derived, after)[0])
                same(f"{story['name']}: {step['change']}", after,
                     derived_ring.change(before, nodes, *rule) if before else derived)
            else:
                same(f"{story['name']}: {step['change']}", after,
                     deliberate.change(before, nodes, *rule) if before else deliberate.new_ring(*rule))
            moves = lookup.diff(before or after, after)[0]
            same(f"{story['name']}: {step['change']}: moved", number(step["moved"]),
                 sum(map(lookup.measure, moves.values())))
            before, nodes = after, step["nodes"]


def check_parts(what, step, made):
    """What each part of the allocator made; one that changed nothing is not in the vector."""
    same(f"{what}: targets", step["parts"]["targets"], [made["targets"][node["id"]] for node in step["nodes"]])
    last = None
    for part in ("forced", "take", "exchange", "ranks"):
        last = step["parts"].get(part, last)
        same(f"{what}: {part}", last, slots_text(step["nodes"], made[part]))


def movement(before, after):
    """Slots whose new owner did not hold the bucket, and slots whose new owner did."""
    changed = [new in old for old, news in zip(before, after) for new, was in zip(news, old) if new not in (was, None)]
    return [changed.count(False), changed.count(True)]


def violations(nodes, owners):
    domain = {node["id"]: node.get("domain", ("own", node["id"])) for node in nodes} | {None: None}
    return sum(owner is None or domain[owner] in {domain[other] for other in copies[:rank]}
               for copies in owners for rank, owner in enumerate(copies))


def check_ranks(file):
    for story in file["stories"]:
        bits, before, nodes = story["bits"], None, []
        for step in story["steps"]:
            what, made = f"{story['name']}: {step['change']}", {}
            if "bits" in step:
                before = [copies for copies in before for _ in range(2**(step["bits"] - bits))]
                bits = step["bits"]
                same(what, step["owners"], slots_text(step["nodes"], before))
                continue
            try:
                after = allocate_ranks.allocate((bits, story["ranks"], story["strict"]), step["nodes"], before, nodes,
                                                step.get("options"), made.__setitem__)
            except allocate_ranks.Refused as refused:
                same(f"{what}: refused", step.get("refused"), str(refused))
                continue
            same(f"{what}: refused", step.get("refused"), None)
            if "parts" in step:
                check_parts(what, step, made)
            else:
                same(what, step["owners"], slots_text(step["nodes"], after))
            same(f"{what}: violations", step["violations"], violations(step["nodes"], after))
            if before:
                same(f"{what}: movement", [step["moved"], step["role_changes"]], movement(before, after))
            before, nodes = after, step["nodes"]


def check_rendezvous(file):
    for value, logarithm in file["logarithms"]:
        same(f"logarithm of {value}", number(logarithm), rendezvous.negative_log2(number(value)))
    for case in file["directories"]:
        same(case["name"], case["owners"],
             slots_text(case["nodes"], rendezvous.allocate(case["bits"], case["ranks"], case["nodes"])))


def check_import(file):
    points = {"xxh3": lookup.xxh3, "xxh64": adopted_hashes.xxh64, "murmur3": adopted_hashes.murmur3,
              "ketama": adopted_hashes.ketama, "crc16": adopted_hashes.crc16}
    for case in file["files"]:
        function, tags, nodes, ring = adopted_rings.FORMATS[case["format"]](case["text"])
        same(f"{case['name']}: hash", [case["hash"], case["hash_tags"]], [function, tags])
        nodes = sorted(({"weight_milli": 1000, **node} for node in nodes), key=lambda node: node["id"])
        same(f"{case['name']}: nodes", case["nodes"], nodes)
        index = {node["id"]: i for i, node in enumerate(nodes)}
        digest = lookup.xxh3(b"".join(end.to_bytes(8, "little") + index[owner].to_bytes(4, "little")
                                      for end, owner in ring))
        same(f"{case['name']}: tokens_digest", [case["ranges"], number(case["tokens_digest"])], [len(ring), digest])
        if "tokens" in case:
            same(f"{case['name']}: tokens", [(number(end), owner) for end, owner in case["tokens"]], ring)
        ends = [end for end, _ in ring]
        for key, owner in case["keys"]:
            hashed = lookup.hash_tag(key.encode()) if tags else key.encode()
            same(f"{case['name']}: {key}", owner, ring[lookup.find(ends, points[function](hashed))][1])
    for case in file["refused"]:
        try:
            adopted_rings.FORMATS[case["format"]](case["text"])
            same(f"refusal of {case['text']!r}", case["at"], None)
        except adopted_rings.Refused as refused:
            same(f"refusal of {case['text']!r}", case["at"], str(refused))


def check_version(file):
    def stamp(value):
        return value and (value[0], number(value[1]))

    for case in file["snapshots"]:
        same(f"snapshot {case}", case["action"], lookup.take_snapshot(stamp(case["have"]), stamp(case["offered"])))
    for case in file["deltas"]:
        same(f"delta {case}", case["action"], lookup.take_delta(stamp(case["have"]), case["history"],
                                                         number(case["from"]), number(case["to"])))
    for case in file["owners"]:
        same(f"owner {case}", case["action"], lookup.install(case["bound_to"], number(case["installed"]),
                                                      stamp(case["offered"]), case["same_digest"]))


CHECKS = {
    "hash": check_hash,
    "tag": check_tag,
    "token": check_token,
    "owner": check_owner,
    "override": check_override,
    "preference": check_preference,
    "diff": check_diff,
    "allocator": check_allocator,
    "ranks": check_ranks,
    "rendezvous": check_rendezvous,
    "import": check_import,
    "version": check_version,
}


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, check in CHECKS.items():
        with open(os.path.join(directory, name + ".json"), encoding="utf-8") as file:
            check(json.load(file))
    print(f"check_lookup.py: {', '.join(CHECKS)}: no difference")


if __name__ == "__main__":
    main()
