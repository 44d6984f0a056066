"""The ring of chosen tokens, written from section 5 of the specification."""

from fractions import Fraction

from lookup import SPACE, node_order


def in_order(nodes):
    return sorted(nodes, key=lambda node: (node_order(node["id"]), node["id"]))


def arcs_of(node, tokens_per_node):
    return max((tokens_per_node * node["weight_milli"] + 500) // 1000, 1)


def new_ring(nodes, tokens_per_node):
    """[(end, owner)]"""
    weights = sum(node["weight_milli"] for node in nodes)
    pieces = {node["id"]: arcs_of(node, tokens_per_node) for node in nodes}
    ring, at = [], 0
    for k in range(max(pieces.values())):
        for node in in_order(nodes):
            count = pieces[node["id"]]
            if k < count:
                share = SPACE * node["weight_milli"] // weights
                at += share // count + (share % count if k == 0 else 0)
                ring.append((at - 1, node["id"]))
    return ring[:-1] + [(SPACE - 1, ring[-1][1])]


def change(ring, nodes_before, nodes, tokens_per_node):
    nodes = in_order(nodes)
    names = [node["id"] for node in nodes]
    known = {node["id"] for node in nodes_before}
    weight = {node["id"]: node["weight_milli"] for node in nodes}
    # [start, size, owner now, owner before], adjacent ones of one owner joined.
    arcs, start = [], ring[-1][0]
    for end, owner in ring:
        size = (end - start - 1) % SPACE + 1
        if arcs and arcs[-1][3] == owner:
            arcs[-1][1] += size
        else:
            arcs.append([start, size, owner if owner in names else None, owner])
        start = end

    def fullness(name):
        return Fraction(sum(size for _, size, owner, _ in arcs if owner == name), weight[name])

    heirs = [name for name in names if name in known] or names
    for arc in sorted((arc for arc in arcs if arc[2] is None), key=lambda arc: (-arc[1], arc[0])):
        arc[2] = min(heirs, key=lambda name: (fullness(name), -names.index(name)))

    for node in nodes:
        taker = node["id"]
        if taker in known:
            continue
        share = SPACE * weight[taker] // sum(weight.values())
        for left in range(arcs_of(node, tokens_per_node), 0, -1):
            missing = share - int(fullness(taker) * weight[taker])
            donors = [name for name in names if name != taker and fullness(name) > 0]
            if missing <= 0 or not donors:
                break
            donor = max(donors, key=lambda name: (fullness(name), -names.index(name)))
            piece = -(-missing // left)
            arc = max((arc for arc in arcs if arc[2] == donor), key=lambda arc: (arc[1], -arc[0]))
            if arc[1] <= piece:
                arc[2] = taker
            else:
                arcs.append([arc[0], piece, taker, arc[3]])
                arc[0], arc[1] = (arc[0] + piece) % SPACE, arc[1] - piece

    ends = {end for end, _ in ring}
    for start, size, owner, before in arcs:
        if owner != before:
            ends |= {start, (start + size) % SPACE}

    def owner_of(point):
        return next(owner for start, size, owner, _ in arcs if (point - start - 1) % SPACE < size)

    return [(end, owner_of(end)) for end in sorted(ends)]
