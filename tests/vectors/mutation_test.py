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

# File, and the path of a value in it: a text, of which the last hex digit is changed, or a number.
PLACES = [
    ("hash", ["keys", 0, "hash"]),
    ("hash", ["keys", 40, "seeded_hash"]),
    ("tag", ["keys", 2, "tag"]),
    ("token", ["tokens", 3, "token"]),
    ("owner", ["derived_rings", 3, "tokens_digest"]),
    ("owner", ["memberships", 1, "ranges", 1, 0]),
    ("diff", ["memberships", 3, "moves", 0, "ranges", 1, 0]),
    ("diff", ["derived_rings", 0, "moved"]),
    ("diff", ["modulo", 0, "moved"]),
    ("version", ["deltas", 0, "to"]),
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

    def test_each_changed_digit_is_noticed_in_each_language(self):
        for name, keys in PLACES:
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
                self.assertEqual(self.failing(), ["C++", "Python", "JavaScript"])
                with open(path, "w", encoding="utf-8") as file:
                    file.write(original)


if __name__ == "__main__":
    PROGRAMS = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
