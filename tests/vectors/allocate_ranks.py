"""The allocator of a directory with several ranks, written from section 9 of the specification.

No client needs it; see allocate.py, which is the same with one rank and much shorter.
"""

from fractions import Fraction

from lookup import bucket_order, node_order


class Refused(Exception):
    """Names the field."""


class Board:
    """Who has which slot (None: nobody), and what each node should have. Nodes are numbers, in order."""

    def __init__(self, bits, ranks, strict, nodes):
        self.nodes = sorted(nodes, key=lambda node: (node_order(node["id"]), node["id"]))
        self.ids = [node["id"] for node in self.nodes]
        self.all = range(len(self.nodes))
        self.weight = [node["weight_milli"] for node in self.nodes]
        self.domain = [("named", node["domain"]) if "domain" in node else ("own", node["id"]) for node in self.nodes]
        self.domains = sorted(set(self.domain))
        if strict and len(self.domains) < ranks:
            raise Refused("ranks")
        self.strict, self.buckets, self.filled = strict, 2**bits, min(ranks, len(nodes))
        members = {domain: self.domain.count(domain) for domain in self.domains}
        depth = next(k for k in range(1, ranks + 1)
                     if sum(min(k, count) for count in members.values()) >= self.filled)
        self.depth = {domain: min(depth, count) for domain, count in members.items()}
        self.slots = [[None] * self.filled for _ in range(self.buckets)]
        self.fixed = set()
        self.owned_at = [[0] * self.filled for _ in self.all]
        self.owned = [0] * len(self.nodes)

    def put(self, bucket, rank, node):
        for who, change in ((self.slots[bucket][rank], -1), (node, 1)):
            if who is not None:
                self.owned[who] += change
                self.owned_at[who][rank] += change
        self.slots[bucket][rank] = node

    def swap(self, bucket, a, b):
        at_a, at_b = self.slots[bucket][a], self.slots[bucket][b]
        self.put(bucket, a, at_b)
        self.put(bucket, b, at_a)

    def may_stand(self, bucket, rank, node):
        others = [other for r, other in enumerate(self.slots[bucket]) if r != rank and other is not None]
        same = sum(self.domain[other] == self.domain[node] for other in others)
        return node not in others and same < self.depth[self.domain[node]]

    def excess(self, node):
        return self.owned[node] - self.target[node]

    def number(self, field, name):
        if name not in self.ids:
            raise Refused(field)
        return self.ids.index(name)

    def holed(self):
        holed = [bucket for bucket in range(self.buckets) if None in self.slots[bucket]]
        return sorted(holed, key=lambda bucket: (bucket_order(bucket, "", 0), bucket))


def keep(board, ranks, before):
    for bucket, owners in enumerate(before):
        stay = [(rank, board.ids.index(owner)) for rank, owner in enumerate(owners) if owner in board.ids]
        if board.filled < ranks:
            stay = [(rank, node) for rank, (_, node) in enumerate(stay)]
        for rank, node in stay:
            board.put(bucket, rank, node)


def move_listed(board, moves):
    for bucket, source, target in moves:
        source, target = board.number("moves", source), board.number("moves", target)
        if bucket >= board.buckets or source not in board.slots[bucket]:
            raise Refused("moves")
        rank = board.slots[bucket].index(source)
        if (bucket, rank) in board.fixed or not board.may_stand(bucket, rank, target):
            raise Refused("moves")
        board.put(bucket, rank, target)
        board.fixed.add((bucket, rank))


def pin(board, pins):
    for bucket, rank, name in (each for each in pins if len(each) == 3):
        node = board.number("pins", name)
        if bucket >= board.buckets or rank >= board.filled:
            raise Refused("pins")
        slots = board.slots[bucket]
        if slots[rank] != node:
            if (bucket, rank) in board.fixed:
                raise Refused("pins")
            if node in slots:
                if (bucket, slots.index(node)) in board.fixed:
                    raise Refused("pins")
                board.swap(bucket, slots.index(node), rank)
            for other in reversed(range(board.filled)):
                if (not board.may_stand(bucket, rank, node) and other != rank and (bucket, other) not in board.fixed
                        and slots[other] is not None and board.domain[slots[other]] == board.domain[node]):
                    board.put(bucket, other, None)
            if not board.may_stand(bucket, rank, node):
                raise Refused("pins")
            board.put(bucket, rank, node)
        board.fixed.add((bucket, rank))
    for bucket, in (each for each in pins if len(each) == 1):
        if bucket >= board.buckets:
            raise Refused("pins")
        board.fixed.update((bucket, rank) for rank, node in enumerate(board.slots[bucket]) if node is not None)


def thin_out(board):
    for bucket, slots in enumerate(board.slots):
        for rank in range(board.filled):
            while slots[rank] is not None and not board.may_stand(bucket, rank, slots[rank]):
                domain = board.domain[slots[rank]]
                crowd = [(Fraction(board.owned[node], board.weight[node]), other) for other, node in enumerate(slots)
                         if node is not None and board.domain[node] == domain and (bucket, other) not in board.fixed]
                if not crowd and board.strict:
                    raise Refused("pins")
                if not crowd:
                    break
                board.put(bucket, max(crowd)[1], None)


def fill(board, total, nodes, caps, least):
    """The level lies between two of the points at which a node begins or ends to follow it."""
    def given(level):
        return {node: max(least[node], min(caps[node], level * board.weight[node])) for node in nodes}

    turns = sorted({Fraction(bound[node], board.weight[node]) for node in nodes for bound in (caps, least)} | {0})
    below = max((turn for turn in turns if sum(given(turn).values()) <= total), default=Fraction(0))
    shares = given(below)
    missing = total - sum(shares.values())
    if missing:
        moving = [node for node in nodes if least[node] <= below * board.weight[node] < caps[node]]
        shares = given(below + Fraction(missing, sum(board.weight[node] for node in moving)))
    return shares


def set_targets(board, node_caps, domain_caps):
    board.caps = [min(board.buckets, node_caps.get(name, board.buckets)) for name in board.ids]
    board.domain_caps = {domain: min(board.buckets * board.depth[domain],
                                     domain_caps.get(domain[1], 2**64) if domain[0] == "named" else 2**64)
                         for domain in board.domains}
    members = {domain: [node for node in board.all if board.domain[node] == domain] for domain in board.domains}
    least = [sum(board.slots[bucket][rank] == node for bucket, rank in board.fixed) for node in board.all]
    total = board.buckets * board.filled
    if any(least[node] > board.caps[node] for node in board.all):
        raise Refused("node_caps")
    if any(sum(least[node] for node in members[domain]) > cap for domain, cap in board.domain_caps.items()):
        raise Refused("domain_caps")
    if total > sum(min(cap, sum(board.caps[node] for node in members[domain]))
                   for domain, cap in board.domain_caps.items()):
        raise Refused("caps")

    shares, free, left = {}, set(board.domains), total
    while True:
        shares.update(fill(board, left, [node for node in board.all if board.domain[node] in free], board.caps, least))
        full = {domain for domain in free if sum(shares[node] for node in members[domain]) > board.domain_caps[domain]}
        if not full:
            break
        for domain in full:
            shares.update(fill(board, board.domain_caps[domain], members[domain], board.caps, least))
            left -= board.domain_caps[domain]
        free -= full
    board.shares = [Fraction(shares[node]) for node in board.all]

    board.target = [int(share) for share in board.shares]
    line = [node for node in board.all if board.shares[node] != board.target[node]]
    line.sort(key=lambda node: (board.owned[node] <= board.target[node], board.target[node] - board.shares[node], node))
    due = {domain: sum(board.shares[node] for node in members[domain]) for domain in board.domains}
    rest = []
    for node in line:
        if sum(board.target[other] for other in members[board.domain[node]]) < int(due[board.domain[node]]):
            board.target[node] += 1
        else:
            rest.append(node)
    open_domains = {domain for domain in board.domains if due[domain] != int(due[domain])}
    for node in rest:
        if sum(board.target) < total and board.domain[node] in open_domains:
            open_domains.remove(board.domain[node])
            board.target[node] += 1


def split_targets(board):
    ranks = range(board.filled)
    floors = [target // board.filled for target in board.target]
    room = [sum(target % board.filled for target in board.target) // board.filled] * board.filled
    more = [[board.owned_at[node][rank] > floors[node] for rank in ranks] for node in board.all]
    extra = [set() for _ in board.all]
    for node in board.all:
        order = sorted(ranks, key=lambda rank: (not more[node][rank], -room[rank], rank))
        extra[node] = set(order[:board.target[node] % board.filled])
        for rank in extra[node]:
            room[rank] -= 1
    for source in ranks:
        for target in ranks:
            for cost in (-1, 0, 1):
                for node in board.all:
                    if (room[source] < 0 < room[target] and source in extra[node] and target not in extra[node]
                            and more[node][source] - more[node][target] == cost):
                        extra[node] = extra[node] - {source} | {target}
                        room[source] += 1
                        room[target] -= 1
    board.target_at = [[floors[node] + (rank in extra[node]) for rank in ranks] for node in board.all]


def place_forced(board):
    lots = {}

    def fullness(node, rank):
        owned = board.owned_at[node][rank]
        if (node, rank, owned) not in lots:
            lots[node, rank, owned] = bucket_order(owned, board.ids[node], rank) >> 44
        return ((owned << 20 | lots[node, rank, owned]) << 24) // board.target_at[node][rank]

    holed = board.holed()
    needs = {domain: 0 for domain in board.domains}
    for node in board.all:
        needs[board.domain[node]] += max(0, -board.excess(node))
    for bucket in holed:
        for node in board.slots[bucket]:
            if node is not None:
                needs[board.domain[node]] += 1
    for left, bucket in zip(range(len(holed) - 1, -1, -1), holed):
        slots = board.slots[bucket]
        for node in slots:
            if node is not None:
                needs[board.domain[node]] -= min(1, needs[board.domain[node]])
        due = {domain: min(max(0, needs[domain] - left * depth), depth) for domain, depth in board.depth.items()}
        for rank in range(board.filled):
            if slots[rank] is not None:
                continue
            able = [node for node in board.all if board.owned_at[node][rank] < board.target_at[node][rank]
                    and board.excess(node) < 0 and board.may_stand(bucket, rank, node)]
            if sum(due.values()) >= slots.count(None):
                able = [node for node in able if due[board.domain[node]] > 0] or able
            if able:
                node = min(able, key=lambda node: (fullness(node, rank), node))
            else:
                node = min((node for node in board.all if node not in slots), key=lambda node: (
                    not board.may_stand(bucket, rank, node), board.target[node] == 0,
                    (board.owned[node] << 40) // max(1, board.target[node]), node))
            board.put(bucket, rank, node)
            domain = board.domain[node]
            due[domain] -= min(1, due[domain])
            needs[domain] -= min(1, needs[domain])


def take(board, takers):
    for same_rank in (True, False):
        orders = {node: iter(sorted(range(board.buckets),
                                    key=lambda bucket: (bucket_order(bucket, board.ids[node], 0), bucket)))
                  for node in takers if board.excess(node) < 0}

        def choice(bucket, node):
            """(distance above the target, rank) of what the node may take."""
            for rank, owner in enumerate(board.slots[bucket]):
                if board.excess(owner) <= 0 or (bucket, rank) in board.fixed or not board.may_stand(bucket, rank, node):
                    continue
                if same_rank and not (board.owned_at[node][rank] < board.target_at[node][rank]
                                      and board.owned_at[owner][rank] > board.target_at[owner][rank]):
                    continue
                yield board.excess(owner), -rank

        while orders:
            for node in list(orders):
                found = next(((bucket, options) for bucket in orders[node]
                              if (options := list(choice(bucket, node)))), None)
                if found:
                    board.put(found[0], -max(found[1])[1], node)
                if not found or board.excess(node) == 0:
                    del orders[node]


def exchange_phase(board):
    distance, at = {node: 0 for node in board.all if board.excess(node) > 0}, [0] * len(board.all)

    def rank_from(bucket, node, far):
        if node in board.slots[bucket]:
            return None
        return next((rank for rank, owner in enumerate(board.slots[bucket])
                     if distance.get(owner) == far and (far > 0 or board.excess(owner) > 0)
                     and (bucket, rank) not in board.fixed and board.may_stand(bucket, rank, node)), None)

    def gain(node, chain):
        while at[node] < board.buckets:
            bucket = (node_order(board.ids[node]) + at[node]) % board.buckets
            rank = None if bucket in chain else rank_from(bucket, node, distance[node] - 1)
            if rank is None:
                at[node] += 1
                continue
            owner = board.slots[bucket][rank]
            if distance[node] > 1 and not gain(owner, chain + [bucket]):
                del distance[owner]
                continue
            board.put(bucket, rank, node)
            return True
        return False

    far, reached = 1, True
    while reached:
        reached = [node for node in board.all if node not in distance
                   and any(rank_from(bucket, node, far - 1) is not None for bucket in range(board.buckets))]
        distance.update((node, far) for node in reached)
        far += 1
        if any(board.excess(node) < 0 for node in reached):
            break
    moved = False
    for node in board.all:
        while board.excess(node) < 0 and node in distance and gain(node, []):
            moved = True
    return moved


def balance_ranks(board):
    ranks = range(board.filled)

    def lean(node, a, b):
        return board.owned_at[node][a] - board.owned_at[node][b]

    def even():
        return all(max(owned) - min(owned) <= 1 for owned in board.owned_at)

    def may_swap(bucket, a, b):
        return not {(bucket, a), (bucket, b)} & board.fixed

    def shift(a, b):
        way = {node: None for node in board.all if lean(node, a, b) >= 2}
        queue = list(way)
        for node in queue:
            for bucket, slots in enumerate(board.slots):
                if slots[a] != node or slots[b] in way or not may_swap(bucket, a, b):
                    continue
                way[slots[b]] = bucket
                queue.append(slots[b])
                if lean(slots[b], a, b) < 0:
                    end = slots[b]
                    while way[end] is not None:
                        bucket = way[end]
                        end = board.slots[bucket][a]
                        board.swap(bucket, a, b)
                    return True
        return False

    swapped = not even()
    while swapped:
        swapped = False
        for bucket, slots in enumerate(board.slots):
            for a in ranks:
                for b in ranks[a + 1:]:
                    if lean(slots[a], a, b) + lean(slots[b], b, a) > 2 and may_swap(bucket, a, b):
                        board.swap(bucket, a, b)
                        swapped = True
    shifted = True
    while shifted and not even():
        shifted = False
        for a in ranks:
            for b in ranks:
                while a != b and shift(a, b):
                    shifted = True


def by_load(board, heat, tolerance, may_take):
    if len(heat) != board.buckets or max(heat) > 2**40:
        raise Refused("heat")
    targets = [int(share * sum(heat) / board.buckets) for share in board.shares]
    loads = [sum(heat[bucket] for bucket in range(board.buckets) if node in board.slots[bucket]) for node in board.all]

    for bucket in sorted(board.holed(), key=lambda bucket: -heat[bucket]):
        for rank in range(board.filled):
            if board.slots[bucket][rank] is not None:
                continue
            best = None
            for node in board.all:
                if node in board.slots[bucket]:
                    continue
                blocked = not board.may_stand(bucket, rank, node) or board.owned[node] >= board.caps[node]
                if best is None or (blocked < best[0] or blocked == best[0]
                                    and loads[node] * targets[best[1]] < loads[best[1]] * targets[node]):
                    best = blocked, node
            board.put(bucket, rank, best[1])
            loads[best[1]] += heat[bucket]
    if may_take is None:
        return

    def excess(node):
        return loads[node] - targets[node]

    def may_get(node):
        return node in may_take and excess(node) < 0 and board.owned[node] < board.caps[node]

    def move(source, target):
        limit, most = min(excess(source), -excess(target)), excess(source) - excess(target)
        held = sorted((heat[bucket], bucket, rank) for bucket in range(board.buckets)
                      for rank, node in enumerate(board.slots[bucket])
                      if node == source and heat[bucket] > 0 and (bucket, rank) not in board.fixed)
        candidates = [slot for slot in reversed(held) if slot[0] <= limit]
        candidates += [slot for slot in held if limit < slot[0] < most]
        for load, bucket, rank in candidates:
            if board.may_stand(bucket, rank, target):
                board.put(bucket, rank, target)
                loads[source] -= load
                loads[target] += load
                return True
        return False

    alone = set()
    while True:
        off = [node for node in board.all
               if node not in alone and abs(excess(node)) * 10**6 > targets[node] * tolerance]
        above = [node for node in off if excess(node) > 0]
        below = [node for node in off if may_get(node)]
        if above:
            node = max(above, key=lambda node: (excess(node), -node))
            others = sorted(filter(may_get, board.all), key=excess)
            found = any(move(node, other) for other in others)
        elif below:
            node = min(below, key=lambda node: (excess(node), node))
            others = sorted((other for other in board.all if excess(other) > 0), key=lambda other: -excess(other))
            found = any(move(other, node) for other in others)
        else:
            return
        if not found:
            alone.add(node)


def allocate(shape, nodes, before=None, nodes_before=(), options=None, watch=lambda part, owners: None):
    """Ids by bucket and rank. Shape is (bits, ranks, strict); `watch` is told what each part made."""
    options = options or {}
    bits, ranks, strict = shape
    board = Board(bits, ranks, strict, nodes)

    def owners():
        return [[None if node is None else board.ids[node] for node in slots] + [None] * (ranks - board.filled)
                for slots in board.slots]

    keep(board, ranks, before or [])
    named = [name for kind, name in board.domains if kind == "named"]
    for field, known in (("node_caps", board.ids), ("domain_caps", named)):
        if not set(options.get(field, {})) <= set(known):
            raise Refused(field)
    move_listed(board, options.get("moves", []))
    pin(board, options.get("pins", []))
    thin_out(board)
    set_targets(board, options.get("node_caps", {}), options.get("domain_caps", {}))
    split_targets(board)
    watch("targets", dict(zip(board.ids, board.target_at)))
    known = {node["id"] for node in nodes_before}
    added = [node for node in board.all if board.ids[node] not in known]
    takers = {"added_only": added, "nothing": None}.get(options.get("balance"), list(board.all))
    if "heat" in options:
        by_load(board, options["heat"], options["heat_tolerance_ppm"], takers)
    else:
        place_forced(board)
        watch("forced", owners())
        if takers is not None:
            take(board, takers)
            watch("take", owners())
        if takers is not None and "balance" not in options:
            while any(board.excess(node) < 0 for node in board.all) and exchange_phase(board):
                pass
            watch("exchange", owners())
            balance_ranks(board)
            watch("ranks", owners())
    if any(board.owned[node] > board.caps[node] for node in board.all):
        raise Refused("node_caps")
    for domain, cap in board.domain_caps.items():
        if domain[0] == "named" and sum(board.owned[node] for node in board.all if board.domain[node] == domain) > cap:
            raise Refused("domain_caps")
    return owners()
