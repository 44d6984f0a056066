"""The hash functions of fleets that are adopted as they stand: key to point, as in section 2."""

import binascii
import hashlib

from xxhash import xxh64_intdigest as xxh64

MASK = 2**64 - 1


def ketama(key):
    return int.from_bytes(hashlib.md5(key).digest()[:4], "little") << 32


def crc16(tag):
    return (binascii.crc_hqx(tag, 0) % 2**14) << 50


def rotate(value, by):
    return (value << by | value >> (64 - by)) & MASK


def finish(h):
    h = (h ^ h >> 33) * 0xff51afd7ed558ccd & MASK
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53 & MASK
    return h ^ h >> 33


def signed_tail(tail):
    """Each byte is widened with its sign, as Java does it and Murmur3 proper does not."""
    word = 0
    for i, byte in enumerate(tail):
        word ^= ((byte - 256 if byte > 127 else byte) << (8 * i)) & MASK
    return word


def murmur3(key):
    c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f

    def scramble1(word):
        return rotate(word * c1 & MASK, 31) * c2 & MASK

    def scramble2(word):
        return rotate(word * c2 & MASK, 33) * c1 & MASK

    if not key:
        return 0  # the token -2^63
    h1 = h2 = 0
    whole = len(key) // 16 * 16
    for at in range(0, whole, 16):
        h1 ^= scramble1(int.from_bytes(key[at:at + 8], "little"))
        h1 = ((rotate(h1, 27) + h2) * 5 + 0x52dce729) & MASK
        h2 ^= scramble2(int.from_bytes(key[at + 8:at + 16], "little"))
        h2 = ((rotate(h2, 31) + h1) * 5 + 0x38495ab5) & MASK
    h2 ^= scramble2(signed_tail(key[whole + 8:])) ^ len(key)
    h1 ^= scramble1(signed_tail(key[whole:whole + 8])) ^ len(key)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    token = (finish(h1) + finish(h2)) & MASK
    return (2**63 - 1 if token == 2**63 else token) ^ 2**63
