"""How a ring of derived tokens changes in one step, written from section 5 of the specification."""

from lookup import derive_ring, find, node_order, tokens_of


def change(ring, nodes_before, nodes, tokens_per_node):
    """[(end, owner)] before and after."""
    known = {node["id"] for node in nodes_before}
    stay = {node["id"]: node for node in nodes if node["id"] in known}
    ends = [end for end, _ in ring]

    def heir(i):
        """Whose range it is without the nodes that leave; None when all do."""
        clockwise = (owner for _, owner in ring[i:] + ring[:i])
        return next((owner for owner in clockwise if owner in stay), None)

    owners = [heir(i) for i in range(len(ring))]
    tokens = {name: set(tokens_of(node, tokens_per_node)) for name, node in stay.items()}

    def is_token(owner, point):
        return owner is not None and point in tokens[owner]

    inserted = {}
    for at, name in derive_ring([node for node in nodes if node["id"] not in known], tokens_per_node):
        owner = owners[find(ends, at)]
        wins = at not in ends or not is_token(owner, at) or (node_order(name), name) < (node_order(owner), owner)
        if wins:
            inserted[at] = name

    pieces = sorted({*ends, *inserted})
    before = [owners[find(ends, end)] for end in pieces]
    after = list(before)
    for i, end in enumerate(pieces):
        if end not in inserted:
            continue
        after[i] = inserted[end]
        for k in [*range(i - 1, -1, -1), *range(len(pieces) - 1, i, -1)]:
            if pieces[k] in inserted or before[k] != before[i] or is_token(before[k], pieces[k]):
                break
            after[k] = inserted[end]
    return list(zip(pieces, after))
