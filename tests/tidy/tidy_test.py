#!/usr/bin/env python3
"""Each rule of scripts/tidy can fail: small trees with one fault each, and what is said about it."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/tidy")
LOADER = importlib.machinery.SourceFileLoader("tidy", TIDY)
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", LOADER))
LOADER.exec_module(tidy)

# A tree without a fault; each case adds one file to it.
CLEAN = {
    "core/base/ids.h": """// Says std::thread and using namespace in a comment, which is fine.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "core/base/units.h"

namespace warmring {
inline constexpr std::uint64_t kBig = 1'000'000;
inline std::string Text() { return "std::mutex, throw, getenv(x)"; }
inline std::string Raw() { return R"(std::cout "quoted" // not a comment)"; }
inline char Tick() { return '"'; }
}  // namespace warmring
""",
    "core/base/units.h": "#pragma once\n",
    "core/base/ids_test.cc": '#include <thread>\n#include "core/base/ids.h"\n#include "tests/support/wait.h"\n',
    "migrations/plan.h": '#pragma once\n#include "core/base/ids.h"\n',
    "proto/warmring/v1/a.proto": 'syntax = "proto3";\n',
    "proto/wire/node.cc": '#include "core/base/ids.h"\n#include "warmring/v1/a.pb.h"\n',
    "server/service/adapter.cc":
        '#include "migrations/plan.h"\n#include "proto/wire/node.h"\n#include "warmring/v1/a.grpc.pb.h"\n',
    "server/store/rocksdb/store.cc": "#include <rocksdb/db.h>\n",
    "client/include/warmring/client.h":
        '#pragma once\n#include <memory>\n#include "core/base/ids.h"\n#include "warmring/owner.h"\n',
    "client/include/warmring/owner.h": '#pragma once\n#include "absl/status/status.h"\n',
    "client/redis/connection.cc": "#include <hiredis/hiredis.h>\n",
    "agent/transfer.cc": '#include "client/redis/connection.h"\n#include "warmring/client.h"\n',
    "agent/redis_module/module.cc": '#include "agent/redis_module/redismodule.h"\n#include "core/base/ids.h"\n',
    "agent/redis_module/redismodule.h": "\t/* a header of others */ \n",
    "tests/support/wait.h": '#pragma once\n#include "server/registry/registry.h"\n',
    "scripts/demo": "#!/bin/bash\nmktemp /tmp/demo.XXXXXX\n",
}

# Rule, path of the faulty file, its text, line of the fault.
FAULTS = [
    # Layers: who may include whom.
    ("layer", "core/a.h", '#pragma once\n#include "migrations/plan.h"\n', 2),
    ("layer", "core/a.h", '#pragma once\n#include "server/a.h"\n', 2),
    ("layer", "core/a_test.cc", '#include "server/a.h"\n', 1),
    ("layer", "core/a.h", '#pragma once\n#include "tests/support/wait.h"\n', 2),
    ("layer", "core/a.h", '#pragma once\n#include "warmring/client.h"\n', 2),
    ("layer", "migrations/a.h", '#pragma once\n#include "proto/wire/node.h"\n', 2),
    ("layer", "migrations/a.h", '#pragma once\n#include "client/a.h"\n', 2),
    ("layer", "proto/wire/a.cc", '#include "server/a.h"\n', 1),
    ("layer", "server/a.cc", '#include "client/a.h"\n', 1),
    ("layer", "server/a.cc", '#include "agent/a.h"\n', 1),
    ("layer", "server/a.cc", '#include "warmring/client.h"\n', 1),
    ("layer", "client/a.cc", '#include "server/a.h"\n', 1),
    ("layer", "client/a.cc", '#include "agent/a.h"\n', 1),
    ("layer", "client/a.cc", '#include "migrations/planner.h"\n', 1),
    ("layer", "agent/a.cc", '#include "migrations/migration_machine.h"\n', 1),
    ("layer", "agent/redis_module/a.cc", '#include "migrations/task.h"\n', 1),
    ("layer", "agent/a.cc", '#include "server/a.h"\n', 1),
    ("layer", "agent/redis_module/a.cc", '#include "agent/transfer.h"\n', 1),
    ("layer", "agent/redis_module/a.cc", '#include "client/a.h"\n', 1),
    ("layer", "agent/redis_module/a.cc", '#include "proto/wire/a.h"\n', 1),
    ("layer", "core/a.cc", '#include "warmring/v1/a.pb.h"\n', 1),
    ("layer", "migrations/a.cc", '#include "warmring/v1/a.pb.h"\n', 1),
    # Generated types stop at the edges.
    ("generated", "server/registry/a.cc", '#include "warmring/v1/a.pb.h"\n', 1),
    ("generated", "client/router/a.cc", '#include "warmring/v1/a.grpc.pb.h"\n', 1),
    ("generated", "agent/engine/a.cc", '#include "warmring/v1/a.pb.h"\n', 1),
    # The pure rooms.
    ("pure-include", "core/a.cc", "#include <thread>\n", 1),
    ("pure-include", "core/a.cc", "#include <mutex>\n", 1),
    ("pure-include", "core/a.cc", "#include <condition_variable>\n", 1),
    ("pure-include", "core/a.cc", "#include <random>\n", 1),
    ("pure-include", "core/a.cc", "#include <fstream>\n", 1),
    ("pure-include", "core/a.cc", "#include <filesystem>\n", 1),
    ("pure-include", "core/a.cc", "#include <iostream>\n", 1),
    ("pure-include", "core/a.cc", "#include <cstdio>\n", 1),
    ("pure-include", "core/a.cc", "#include <ctime>\n", 1),
    ("pure-include", "core/a.cc", "#include <unistd.h>\n", 1),
    ("pure-include", "core/a.cc", "#include <sys/socket.h>\n", 1),
    ("pure-include", "core/a.cc", "#include <grpcpp/grpcpp.h>\n", 1),
    ("pure-include", "core/a.cc", '#include "google/protobuf/message.h"\n', 1),
    ("pure-include", "core/a.cc", '#include "absl/synchronization/mutex.h"\n', 1),
    ("pure-include", "core/a.cc", '#include "absl/random/random.h"\n', 1),
    ("pure-include", "core/a.cc", '#include "absl/time/clock.h"\n', 1),
    ("pure-include", "core/a.cc", "#include <spdlog/spdlog.h>\n", 1),
    ("pure-include", "migrations/a.cc", "#  include <openssl/md5.h>\n", 1),
    ("pure-call", "core/a.cc", "auto t = std::chrono::steady_clock::now();\n", 1),
    ("pure-call", "core/a.cc", "auto t = absl::Now();\n", 1),
    ("pure-call", "core/a.cc", "auto t = std::time(nullptr);\n", 1),
    ("pure-call", "core/a.cc", "\nauto t = time(nullptr);\n", 2),
    ("pure-call", "core/a.cc", "int r = std::rand();\n", 1),
    ("pure-call", "core/a.cc", "std::random_device d;\n", 1),
    ("pure-call", "core/a.cc", 'auto e = std::getenv("HOME");\n', 1),
    ("pure-call", "core/a.cc", 'auto e = getenv("HOME");\n', 1),
    ("pure-call", "core/a.cc", "std::jthread t;\n", 1),
    ("pure-call", "core/a.cc", 'std::printf("x");\n', 1),
    ("pure-call", "core/a.cc", 'std::cerr << "x";\n', 1),
    ("pure-call", "migrations/a.cc", "std::mutex m;\n", 1),
    # Outside things behind their seams.
    ("seam", "server/registry/a.cc", "#include <rocksdb/db.h>\n", 1),
    ("seam", "agent/engine/a.cc", "#include <hiredis/hiredis.h>\n", 1),
    # Installed headers.
    ("public-header", "client/include/warmring/a.h", '#pragma once\n#include "client/router/a.h"\n', 2),
    ("public-header", "client/include/warmring/a.h", "#pragma once\n#include <grpcpp/grpcpp.h>\n", 2),
    # Style.
    ("include-path", "server/a.cc", '#include "neighbour.h"\n', 1),
    ("pragma-once", "server/a.h", "// What it is.\n#ifndef A\n#define A\n#endif\n", 2),
    ("tab", "server/a.cc", "int a =\t1;\n", 1),
    ("tab", "scripts/a", "\techo\n", 1),
    ("trailing-space", "server/a.cc", "int a; \n", 1),
    ("line-end", "docs/a.md", "text\r\n", 1),
    ("final-newline", "docs/a.md", "text", 1),
    ("line-length", "server/a.cc", "// " + "x" * 98 + "\n", 1),
    ("banner", "server/a.cc", "// ----------\n", 1),
    ("unfinished", "server/a.cc", "// TO" "DO: finish\n", 1),
    ("unfinished", "docs/a.md", "\nFIX" "ME\n", 2),
    ("unfinished", "scripts/a", "# XX" "X\n", 1),
    ("using-namespace", "server/a.cc", "using namespace std;\n", 1),
    ("mutex", "server/a.cc", "absl::Mutex m;\n", 1),
    ("mutex", "server/a.cc", "absl::MutexLock l(&m);\n", 1),
    ("string-view", "server/a.cc", "void F(absl::string_view s);\n", 1),
    ("std-types", "server/a.cc", "absl::optional<int> o;\n", 1),
    ("throw", "server/a.cc", "void F() { throw 1; }\n", 1),
    ("sleep", "server/a_test.cc", "std::this_thread::sleep_for(d);\n", 1),
    ("sleep", "server/a_test.cc", "usleep(5);\n", 1),
    ("sleep", "tests/a_test.cc", "sleep(5);\n", 1),
    ("sleep", "tests/a_test.cc", "absl::SleepFor(d);\n", 1),
]

# Looks like a fault and is none.
ALLOWED = [
    ("server/a.cc", "auto v = absl::string_view(s.data(), s.size());\n"),
    ("server/a.cc", "absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);\n"),
    ("server/a.cc", "#include <thread>\nstd::this_thread::sleep_for(d);\n"),
    ("server/a_test.cc", '#include "warmring/v1/a.pb.h"\n'),
    ("core/a.cc", "auto t = event.time();\nauto u = runtime(0);\nint brand(int);\n"),
    ("core/a_test.cc", "#include <random>\nstd::mt19937_64 rng(1);\n"),
    ("core/a.cc", '/* #include "server/a.h" */\n'),
    ("proto/wire/a.cc", '#include "migrations/planner.h"\n'),
    ("client/owner/a.cc", '#include "migrations/task.h"\n'),
    ("agent/a.cc", '#include "migrations/plan.h"\n'),
    ("client/cli/a.cc", '#include "warmring/v1/a.grpc.pb.h"\n#include <libsmartcols/libsmartcols.h>\n'),
    ("agent/session.cc", '#include "warmring/v1/a.grpc.pb.h"\n'),
    ("server/a.cc", "// see https://example.org/" + "x" * 90 + "\n"),
    ("third_party/a.h", "\tanything"),
]


def write_tree(root, files, unlisted=()):
    """Writes these files below root, and a CMakeLists.txt that names the sources but the unlisted."""
    sources = [path for path in files if path.endswith((".cc", ".h", ".proto")) and path not in unlisted]
    cmake = "x(\n" + "".join(f"  {path}\n" for path in sources) + ")\n"
    for path, text in {**files, "CMakeLists.txt": cmake}.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def breaches_of(files, unlisted=()):
    """What tidy finds in a tree of these files: [(path, line, rule)]."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files, unlisted)
        return [(path, line, rule) for path, line, rule, _ in sorted(tidy.Tidy(root).run())]


class TidyTest(unittest.TestCase):

    def test_a_clean_tree_has_no_breach(self):
        self.assertEqual(breaches_of(CLEAN), [])

    def test_each_rule_fires_where_the_fault_is_and_nowhere_else(self):
        for rule, path, text, line in FAULTS:
            with self.subTest(rule=rule, path=path, text=text):
                self.assertEqual(breaches_of({**CLEAN, path: text}), [(path, line, rule)])

    def test_what_only_looks_like_a_fault_passes(self):
        for path, text in ALLOWED:
            with self.subTest(path=path, text=text):
                self.assertEqual(breaches_of({**CLEAN, path: text}), [])

    def test_a_file_that_no_cmakelists_names_is_an_orphan(self):
        for path in ("server/a.cc", "client/include/warmring/a.h", "proto/warmring/v1/b.proto"):
            with self.subTest(path=path):
                tree = {**CLEAN, path: "#pragma once\n" if path.endswith(".h") else "\n"}
                self.assertEqual(breaches_of(tree, unlisted={path}), [(path, 1, "orphan")])

    def test_a_name_in_a_comment_of_a_cmakelists_does_not_list_the_file(self):
        tree = {**CLEAN, "server/CMakeLists.txt": "# a.cc\n", "server/a.cc": "\n"}
        self.assertEqual(breaches_of(tree, unlisted={"server/a.cc"}), [("server/a.cc", 1, "orphan")])

    def test_a_file_that_is_not_utf8_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "a.md"), "wb") as file:
                file.write(b"\xff\xfe\n")
            found = tidy.Tidy(root).run()
        self.assertEqual([breach[:3] for breach in found], [("a.md", 1, "utf-8")])

    def test_the_program_prints_each_breach_and_ends_1(self):
        for files, code, output in (
            (CLEAN, 0, r"tidy: \d+ files, 0 breaches\n"),
            ({**CLEAN, "core/a.cc": "#include <thread>\n"}, 1,
             r"core/a\.cc:1: pure-include: thread: core may use [^\n]+\ntidy: \d+ files, 1 breaches\n")):
            with tempfile.TemporaryDirectory() as root:
                write_tree(root, files)
                run = subprocess.run([TIDY, "--root", root], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, code)
            self.assertRegex(run.stdout, f"^{output}$")


if __name__ == "__main__":
    sys.exit(unittest.main())
