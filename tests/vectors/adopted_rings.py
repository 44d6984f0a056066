"""Files of other systems and the rings that they mean, written from section 5 of the specification.

What decides about a refusal is where it is; that ids, hosts and ports have the form that section 11
asks for is not looked at beyond what the vectors need.
"""

import hashlib
import json
import math
import re
import struct

from adopted_hashes import xxh64

LIMIT = 8388608


class Refused(Exception):
    """Names the place."""


def require(condition, place):
    if not condition:
        raise Refused(place)


def node_id(name):
    text = re.sub("[^a-z0-9]+", "-", name.lower()).lstrip("-")
    text = text if text[:1].isalpha() else "node-" + text
    return text[:63].rstrip("-")


def check_address(address, place):
    form = re.fullmatch(r"(\[[0-9a-f:]+\]|[a-z0-9.-]+):([1-9][0-9]*)", address)
    require(form and int(form[2]) < 65536, place)


def ring_of(hash_function, tags, nodes, tokens):
    """Nodes are {id, address, ...}, tokens pairs (point, index of the node)."""
    require(nodes and len({node["id"] for node in nodes}) == len(nodes), "nodes")
    ring = sorted(set(tokens))
    require(len({point for point, _ in ring}) == len(ring), "tokens")
    require({owner for _, owner in ring} == set(range(len(nodes))), "tokens")
    return hash_function, tags, nodes, [(point, nodes[owner]["id"]) for point, owner in ring]


def lines_of(text):
    """(number, words) of the lines that say something."""
    require("\0" not in text, "the file has a NUL byte")
    require(text == "" or text.endswith("\n"), "the last line does not end")
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        comment = next((i for i, word in enumerate(words) if word.startswith("#")), len(words))
        if words[:comment]:
            yield number, words[:comment]


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def ketama(text, libmemcached):
    nodes, tokens, first_weight = [], [], None
    for number, words in lines_of(text):
        place, address = f"line {number}", words[0]
        require(len(words) <= 2 and not (libmemcached and address[0] == "["), place)
        check_address(address, place)
        weight = int(words[1]) if len(words) == 2 and words[1].isdigit() else 0 if len(words) == 2 else 1
        first_weight = first_weight or weight
        require(1 <= weight <= 65535 and weight == first_weight, place)
        name = address.removesuffix(":11211") if libmemcached else address
        nodes.append({"id": node_id(address), "hash_name": name.encode().hex(), "address": address})
    groups = 40
    if libmemcached and nodes:
        share = single(single(first_weight) / single(first_weight * len(nodes)))
        groups = math.floor(single(single(share * 160) / 4 * len(nodes)))
    for owner, node in enumerate(nodes):
        for group in range(groups):
            digest = hashlib.md5(bytes.fromhex(node["hash_name"]) + f"-{group}".encode()).digest()
            tokens += [(point << 32, owner) for point in struct.unpack("<4I", digest)]
    return ring_of("ketama", False, nodes, tokens)


def read_object(text, members):
    try:
        root = json.loads(text)
    except ValueError:
        raise Refused("the file is not JSON, or it is cut off") from None
    require(isinstance(root, dict), "the file")
    check_members(root, "", members)
    return root


def check_members(value, place, members):
    """Members are names and types; of several wrong ones the first that is not known is named."""
    dot = place and place + "."
    require(isinstance(value, dict), place)
    for name in sorted(value):
        require(name in members, dot + name)


def member(value, place, name, kind, default=None):
    found = value.get(name, default)
    good = isinstance(found, kind) and not isinstance(found, bool)
    require(good and not (kind is int and found < 0), (place and place + ".") + name)
    return found


def tokens_file(text):
    root = read_object(text, ("hash", "hash_tags", "nodes", "tokens"))
    function = member(root, "", "hash", str, "xxh3")
    require(function in ("xxh3", "xxh64", "murmur3", "ketama", "crc16"), "hash")
    require(isinstance(root.get("hash_tags", False), bool), "hash_tags")
    nodes, tokens = member(root, "", "nodes", list), []
    listed = member(root, "", "tokens", list)
    for i, node in enumerate(nodes):
        place = f"nodes[{i}]"
        check_members(node, place, ("id", "address", "zone"))
        name, address = member(node, place, "id", str), member(node, place, "address", str)
        require(re.fullmatch("[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name), place + ".id")
        check_address(address, place + ".address")
    ids = [node["id"] for node in nodes]
    for i, entry in enumerate(listed):
        place = f"tokens[{i}]"
        check_members(entry, place, ("token", "node"))
        point, owner = member(entry, place, "token", str), member(entry, place, "node", str)
        require(re.fullmatch("[0-9a-fA-F]{1,16}", point), place + ".token")
        require(owner in ids, place + ".node")
        tokens.append((int(point, 16), ids.index(owner)))
    return ring_of(function, root.get("hash_tags", False) or function == "crc16", nodes, tokens)


def cassandra_tokens(text, port):
    nodes, tokens, top, datacenter = {}, [], None, ""
    for number, words in lines_of(text):
        place = f"line {number}"
        whole = re.fullmatch("-?[0-9]+", words[-1]) and -2**63 <= int(words[-1]) < 2**63
        if words[0] == "Warning:":
            break
        if words[0] == "Datacenter:":
            require(len(words) == 2 and not datacenter, place)
            datacenter = words[1]
        elif set(words[0]) == {"="} or words[0] == "Address":
            continue
        elif len(words) == 1:
            require(whole and top is None and not tokens, place)
            top = int(words[0])
        else:
            require(whole and len(words) in (2, 7, 8) and (len(words) == 2 or words[3] == "Normal"), place)
            address = words[0]
            if ":" not in address:
                address += f":{port}"
            elif address.count(":") > 1 and address[0] != "[":
                address = f"[{address}]:{port}"
            check_address(address, place)
            node = {"id": node_id(words[0]), "hash_name": words[0].encode().hex(), "address": address}
            node |= {"zone": datacenter} if datacenter else {}
            node |= {"rack": words[1]} if len(words) > 2 else {}
            nodes.setdefault(words[0], node)
            tokens.append((int(words[-1]) + 2**63, list(nodes).index(words[0])))
    require(top is None or tokens and max(tokens)[0] == top + 2**63,
            f"the highest token is not {top}, which nodetool prints on top")
    return ring_of("murmur3", False, list(nodes.values()), tokens)


def envoy(text):
    sizes = ("minimum_ring_size", "maximum_ring_size", "hashes_per_host")
    root = read_object(text, ("hosts", "hash_function", *sizes))
    require(member(root, "", "hash_function", str, "XX_HASH") == "XX_HASH", "hash_function")
    hosts, nodes = member(root, "", "hosts", list), []
    weights = []
    for i, host in enumerate(hosts):
        place = f"hosts[{i}]"
        host = {"address": host} if isinstance(host, str) else host
        check_members(host, place, ("address", "hash_key", "weight"))
        address = member(host, place, "address", str)
        name = member(host, place, "hash_key", str, address)
        weights.append(member(host, place, "weight", int, 1))
        require(name, place + ".hash_key")
        check_address(address, place + ".address")
        require(weights[-1] == weights[0] and weights[0] > 0, place + ".weight")
        nodes.append({"id": node_id(address), "hash_name": name.encode().hex(), "address": address})
    require(nodes, "hosts")
    minimum, maximum = member(root, "", sizes[0], int, 1024), member(root, "", sizes[1], int, LIMIT)
    require(maximum <= LIMIT, sizes[1])
    require(minimum <= maximum, sizes[0])
    given = sizes[2] in root
    require(not given or not set(sizes[:2]) & set(root), sizes[2])
    points = member(root, "", sizes[2], int, -(-minimum // len(nodes)))
    require(1 <= points <= maximum // len(nodes), sizes[2] if given else sizes[0])
    require(given or walk_gives(points, len(nodes), minimum), sizes[0])
    tokens = [(xxh64(bytes.fromhex(node["hash_name"]) + f"_{i}".encode()), owner)
              for owner, node in enumerate(nodes) for i in range(points)]
    return ring_of("xxh64", False, nodes, tokens)


def walk_gives(points, hosts, minimum):
    """Whether Envoy's sums in double precision give each host this number of points."""
    share, total, even = 1 / hosts, 0.0, True
    for host in range(1, hosts + 1):
        total += points / share * share
        even = even and math.ceil(total) == points * host
    return even and math.ceil(share * minimum) == points


FORMATS = {
    "ketama-libmemcached": lambda text: ketama(text, True),
    "ketama": lambda text: ketama(text, False),
    "tokens": tokens_file,
    "cassandra-tokens": lambda text: cassandra_tokens(text, 9042),
    "envoy": envoy,
}
