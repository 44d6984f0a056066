#!/usr/bin/env python3
"""A vector that is wrong in one digit is noticed in every language: no check passes by looking away.

mutation_test.py VECTORS_TEST PYTHON NODE, each the path of a program
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

EVERYBODY = ["C++", "Python", "JavaScript"]
# What no client computes has two readers.
ALLOCATORS = ["C++", "Python"]

# File, the path of a value in it (a text, of which the last hex digit is changed, or a number), and
# who reads it.
PLACES = [
    ("hash", ["keys", 0, "hash"], EVERYBODY),
    ("hash", ["keys", 40, "seeded_hash"], EVERYBODY),
    ("tag", ["keys", 2, "tag"], EVERYBODY),
    ("token", ["tokens", 3, "token"], EVERYBODY),
    ("owner", ["derived_rings", 3, "tokens_digest"], EVERYBODY),
    ("owner", ["memberships", 1, "ranges", 1, 0], EVERYBODY),
    ("override", ["cases", 1, "overrides", 0, "ranges", 0, 1], EVERYBODY),
    ("override", ["cases", 3, "keys", 4, 1], EVERYBODY),
    ("override", ["cases", 4, "overrides", 1, "epoch"], EVERYBODY),
    ("diff", ["memberships", 3, "moves", 0, "ranges", 1, 0], EVERYBODY),
    ("diff", ["derived_rings", 0, "moved"], EVERYBODY),
    ("diff", ["modulo", 0, "moved"], EVERYBODY),
    ("allocator", ["stories", 0, "steps", 1, "owners"], ALLOCATORS),
    ("allocator", ["ring_stories", 0, "steps", 4, "ranges", 3, 0], ALLOCATORS),
    ("allocator", ["ring_stories", 2, "steps", 1, "ranges", 3, 0], EVERYBODY),
    ("allocator", ["ring_stories", 2, "steps", 0, "ranges", 3, 1], EVERYBODY),
    ("ranks", ["stories", 0, "steps", 1, "parts", "targets", 0, 2], ALLOCATORS),
    ("ranks", ["stories", 0, "steps", 1, "parts", "forced"], ALLOCATORS),
    ("ranks", ["stories", 0, "steps", 1, "parts", "take"], ALLOCATORS),
    ("ranks", ["stories", 5, "steps", 0, "parts", "exchange"], ALLOCATORS),
    ("ranks", ["stories", 5, "steps", 0, "parts", "ranks"], ALLOCATORS),
    ("ranks", ["stories", 0, "steps", 1, "moved"], ALLOCATORS),
    ("ranks", ["stories", 4, "steps", 1, "options", "pins", 1, 0], ALLOCATORS),
    ("rendezvous", ["logarithms", 77, 1], EVERYBODY),
    ("rendezvous", ["directories", 4, "owners"], EVERYBODY),
    ("import", ["files", 0, "tokens_digest"], EVERYBODY),
    ("import", ["files", 3, "tokens", 1, 0], EVERYBODY),
    ("version", ["deltas", 0, "to"], EVERYBODY),
]


def text_of(content):
    """As the generator writes it: one vector a line."""
    def compact(value):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    fields = []
    for field, value in content.items():
        if isinstance(value, list):
            items = ",\n".join("    " + compact(item) for item in value)
            fields.append(f"  {compact(field)}: [\n{items}\n  ]")
        else:
            fields.append(f"  {compact(field)}: {compact(value)}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def changed(value):
    if isinstance(value, int):
        return value + 1
    return value[:-1] + format(int(value[-1], 16) ^ 1, "x")


class MutationTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.vectors = os.path.join(self.root, "tests/vectors")
        os.makedirs(self.vectors)
        for name in os.listdir(HERE):
            if name.endswith(".json"):
                shutil.copy(os.path.join(HERE, name), self.vectors)

    def failing(self):
        vectors_test, python, node = PROGRAMS
        commands = {
            "C++": [vectors_test, "--gtest_filter=VectorsTest.FilesAreWhatTheCoreLibrarySays"],
            "Python": [python, os.path.join(HERE, "check_lookup.py"), self.vectors],
            "JavaScript": [node, os.path.join(HERE, "check_lookup.mjs"), self.vectors],
        }
        environment = dict(os.environ, WARMRING_SOURCE_DIR=self.root)
        return [language for language, command in commands.items()
                if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False).returncode == 1]

    def test_copies_pass(self):
        self.assertEqual(self.failing(), [])

    def test_each_changed_digit_is_noticed_by_each_reader(self):
        for name, keys, readers in PLACES:
            with self.subTest(file=name, keys=keys):
                path = os.path.join(self.vectors, name + ".json")
                with open(path, encoding="utf-8") as file:
                    original = file.read()
                content = json.loads(original)
                self.assertEqual(text_of(content), original)
                parent = content
                for key in keys[:-1]:
                    parent = parent[key]
                parent[keys[-1]] = changed(parent[keys[-1]])
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text_of(content))
                self.assertEqual(self.failing(), readers)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(original)


if __name__ == "__main__":
    PROGRAMS = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
