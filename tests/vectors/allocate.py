"""The allocator of a directory with one owner a bucket, written from section 9 of the specification.

No client needs it. It is here because a rule that two programs follow to the same buckets is a rule
that is written down.
"""

from fractions import Fraction

from lookup import bucket_order, node_order


def in_order(nodes):
    return sorted(nodes, key=lambda node: (node_order(node["id"]), node["id"]))


def targets_of(buckets, nodes, owned):
    """Shares by weight; one more for those that hold more than the floor, then for the largest rests."""
    weights = sum(node["weight_milli"] for node in nodes)
    shares = {node["id"]: Fraction(buckets * node["weight_milli"], weights) for node in nodes}
    targets = {name: int(share) for name, share in shares.items()}
    names = [node["id"] for node in in_order(nodes) if shares[node["id"]] != targets[node["id"]]]
    names.sort(key=lambda name: (owned.get(name, 0) <= targets[name], targets[name] - shares[name]))
    for name in names[:buckets - sum(targets.values())]:
        targets[name] += 1
    return targets


def count(owners):
    owned = {}
    for owner in owners:
        owned[owner] = owned.get(owner, 0) + 1
    return owned


def allocate(bits, nodes, owners_before=None, nodes_before=()):
    """The ids of the owners, by bucket. What was before is nothing for a new directory."""
    names = [node["id"] for node in in_order(nodes)]
    known = {node["id"] for node in nodes_before}
    owners = [owner if owner in names else None for owner in owners_before or [None] * 2**bits]
    owned = count(owners)
    targets = targets_of(2**bits, nodes, owned)

    def place(bucket, owner):
        if owners[bucket] is not None:
            owned[owners[bucket]] -= 1
        owners[bucket] = owner
        owned[owner] = owned.get(owner, 0) + 1

    def lack(name):
        return targets[name] - owned.get(name, 0)

    def fullness(name):
        """What it owns, and a fraction drawn by hash for the next one, in parts of its target."""
        held = owned.get(name, 0)
        return ((held << 20 | bucket_order(held, name, 0) >> 44) << 24) // targets[name]

    forced = sorted((bucket_order(bucket, "", 0), bucket)
                    for bucket, owner in enumerate(owners) if owner is None)
    for left, (_, bucket) in zip(range(len(forced) - 1, -1, -1), forced):
        below = [name for name in names if lack(name) > 0]
        due = [name for name in below if lack(name) > left]
        place(bucket, min(due or below, key=fullness))

    takers = {name: iter(sorted(range(2**bits), key=lambda bucket: (bucket_order(bucket, name, 0), bucket)))
              for name in names if name not in known and lack(name) > 0}
    while takers:
        for name in list(takers):
            bucket = next((bucket for bucket in takers[name] if lack(owners[bucket]) < 0), None)
            if bucket is not None:
                place(bucket, name)
            if bucket is None or lack(name) == 0:
                del takers[name]
    return owners
