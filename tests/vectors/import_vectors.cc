// import.json: fleets that are adopted as they stand. Each is a file of another system, the ring
// that it means, and who owns what there; or the place in the file that is refused.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "client/import/cassandra_ring.h"
#include "client/import/envoy_ring.h"
#include "client/import/ketama.h"
#include "client/import/token_list.h"
#include "core/hashing/key_hash.h"
#include "tests/vectors/fleet.h"
#include "tests/vectors/vectors.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint16_t kCassandraPort = 9042;
// A ring of more tokens is given by its digest.
constexpr size_t kMostTokensInFull = 64;

struct Format {
  std::string name;
  std::function<absl::StatusOr<Fleet>(std::string_view)> parse;
};

std::vector<Format> Formats() {
  return {
      {"ketama-libmemcached",
       [](std::string_view text) { return ParseKetama(text, KetamaLibrary::kLibmemcached); }},
      {"ketama", [](std::string_view text) { return ParseKetama(text, KetamaLibrary::kOther); }},
      {"tokens", [](std::string_view text) { return ParseTokenList(text); }},
      {"cassandra-tokens",
       [](std::string_view text) { return ParseCassandraRing(text, kCassandraPort); }},
      {"envoy", [](std::string_view text) { return ParseEnvoyRing(text); }}};
}

absl::StatusOr<Fleet> Parse(const std::string& format, const std::string& text) {
  for (const Format& known : Formats()) {
    if (known.name == format) return known.parse(text);
  }
  std::fprintf(stderr, "import.json: no format %s\n", format.c_str());
  std::abort();
}

std::string FunctionName(HashSpec::Function function) {
  switch (function) {
    case HashSpec::Function::kXxh3:
      return "xxh3";
    case HashSpec::Function::kXxh64:
      return "xxh64";
    case HashSpec::Function::kMurmur3:
      return "murmur3";
    case HashSpec::Function::kKetama:
      return "ketama";
    case HashSpec::Function::kCrc16:
      return "crc16";
  }
  return "";
}

void AppendLittleEndian(uint64_t value, int size, std::string& bytes) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

const OwnedRange& RangeAt(const Fleet& fleet, HashPoint point) {
  const auto at = std::lower_bound(
      fleet.ranges.begin(), fleet.ranges.end(), point,
      [](const OwnedRange& range, HashPoint searched) { return range.end < searched; });
  return at == fleet.ranges.end() ? fleet.ranges.front() : *at;
}

Json Adopted(const std::string& name, const std::string& format, const std::string& text) {
  const absl::StatusOr<Fleet> fleet = Parse(format, text);
  if (!fleet.ok()) {
    std::fprintf(stderr, "import.json: %s: %s\n", name.c_str(), fleet.status().ToString().c_str());
    std::abort();
  }
  std::vector<NodeIndex> order(fleet->nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](NodeIndex a, NodeIndex b) { return fleet->nodes[a].id < fleet->nodes[b].id; });
  std::vector<uint32_t> place(order.size());
  std::vector<Node> nodes;
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    nodes.push_back(fleet->nodes[order[i]]);
  }
  Json nodes_json = NodesJson(nodes);
  for (uint32_t i = 0; i < nodes.size(); ++i) nodes_json[i]["address"] = nodes[i].address;

  std::string all;
  Json tokens = Json::array();
  for (const OwnedRange& range : fleet->ranges) {
    AppendLittleEndian(range.end, 8, all);
    AppendLittleEndian(place[range.owner], 4, all);
    tokens.push_back({Hex(range.end), fleet->nodes[range.owner].id});
  }
  Json keys = Json::array();
  for (const char* key : {"", "user:1", "user:2", "{user:1}:cart", "session:42", "köln", "a b",
                          "0123456789abcdef0123456789abcdef"}) {
    const OwnedRange& range = RangeAt(*fleet, HashKey(fleet->hash, key));
    keys.push_back({key, fleet->nodes[range.owner].id});
  }
  Json json = {{"name", name},
               {"format", format},
               {"text", text},
               {"hash", FunctionName(fleet->hash.function)},
               {"hash_tags", fleet->hash.hash_tags},
               {"nodes", nodes_json},
               {"ranges", fleet->ranges.size()},
               {"tokens_digest", Hex(HashKey(HashSpec(), all))}};
  if (tokens.size() <= kMostTokensInFull) json["tokens"] = tokens;
  json["keys"] = keys;
  return json;
}

Json Refused(const std::string& format, const std::string& text) {
  const absl::StatusOr<Fleet> fleet = Parse(format, text);
  if (fleet.ok()) {
    std::fprintf(stderr, "import.json: accepted: %s\n", text.c_str());
    std::abort();
  }
  const std::string message(fleet.status().message());
  return {{"format", format},
          {"text", text},
          {"at", message.substr(0, message.find(": "))},
          {"what", message}};
}

constexpr const char* kNodetool =
    "\nDatacenter: datacenter1\n==========\n"
    "Address   Rack   Status State   Load        Owns    Token\n"
    "                                                    3074457345618258602\n"
    "10.0.0.1  rack1  Up     Normal  103.67 KiB  66.67%  -9223372036854775808\n"
    "10.0.0.2  rack2  Down   Normal  ?           66.67%  -3074457345618258603\n"
    "10.0.0.1  rack1  Up     Normal  103.67 KiB  66.67%  -1\n"
    "10.0.0.3  rack1  Up     Normal  98.1 KiB    66.67%  3074457345618258602\n"
    "\n  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n";

constexpr const char* kTokens =
    R"({"nodes":[{"id":"a","address":"10.0.0.1:1"},{"id":"b","address":"10.0.0.2:1","zone":"z"}],)"
    R"("tokens":[{"token":"8000000000000000","node":"a"},{"token":"ff","node":"b"},)"
    R"({"token":"C000000000000000","node":"b"},{"token":"ff","node":"b"}]})";

Json Files() {
  const std::string servers = "# the fleet\n10.0.0.1:11211 600\n\n  cache-b:11212\t600  # b\r\n";
  Json list = Json::array();
  list.push_back(Adopted("libmemcached leaves out the port 11211", "ketama-libmemcached", servers));
  list.push_back(Adopted("other libraries hash the line", "ketama", servers));
  list.push_back(Adopted("an IPv6 address", "ketama", "[2001:db8::1]:11211\n10.0.0.2:11211\n"));
  list.push_back(Adopted("tokens in any order, one of them twice", "tokens", kTokens));
  for (const char* hash : {"xxh64", "murmur3", "ketama", "crc16", "xxh3"}) {
    list.push_back(Adopted(
        fmt::format("tokens for keys that are hashed with {}", hash), "tokens",
        fmt::format(
            R"({{"hash":"{}","hash_tags":true,"nodes":[{{"id":"a","address":"h:1"}},)"
            R"({{"id":"b","address":"h:2"}}],"tokens":[{{"token":"3fffffffffffffff","node":"a"}},)"
            R"({{"token":"7fffffffffffffff","node":"b"}},)"
            R"({{"token":"bfffffffffffffff","node":"a"}},)"
            R"({{"token":"ffffffffffffffff","node":"b"}}]}})",
            hash)));
  }
  list.push_back(Adopted("nodetool ring", "cassandra-tokens", kNodetool));
  list.push_back(Adopted("addresses and tokens", "cassandra-tokens",
                         "10.0.0.1 -9223372036854775808\n2001:db8::2 0\n10.0.0.3:7000 "
                         "9223372036854775807\n10.0.0.1 42\n"));
  list.push_back(Adopted("points from the minimum", "envoy",
                         R"({"hosts":["10.0.0.1:80","10.0.0.2:80","10.0.0.3:80"],)"
                         R"("minimum_ring_size":10})"));
  list.push_back(Adopted("a hash key instead of the address", "envoy",
                         R"({"hosts":[{"address":"10.0.0.1:80","hash_key":"one","weight":7},)"
                         R"({"address":"10.0.0.2:80","weight":7}],"hashes_per_host":5,)"
                         R"("hash_function":"XX_HASH"})"));
  list.push_back(
      Adopted("the default of 1024", "envoy", R"({"hosts":["10.0.0.1:80","10.0.0.2:80"]})"));
  return list;
}

Json RefusedFiles() {
  Json list = Json::array();
  for (const char* text :
       {"", "10.0.0.1:11211", "10.0.0.1:11211\n10.0.0.2\n", "10.0.0.1:11211 x\n",
        "10.0.0.1:11211 0\n", "10.0.0.1:11211 1 1\n", "10.0.0.1:11211 2\n10.0.0.2:11211 3\n",
        "10.0.0.1:11211\n10.0.0.2:11211\n10.0.0.1:11211\n", "[2001:db8::1]:11211\n"}) {
    list.push_back(Refused("ketama-libmemcached", text));
  }
  list.push_back(Refused("ketama", "10.0.0.1:11211\na:0\n"));
  const std::string tokens = kTokens;
  list.push_back(Refused("tokens", tokens.substr(0, tokens.size() - 1)));
  for (const char* text :
       {"[]", "{}", R"({"nodes":[],"tokens":[]})", R"({"nodes":[],"tokens":[],"more":1})",
        R"({"nodes":{},"tokens":[]})", R"({"hash":"md5","nodes":[],"tokens":[]})",
        R"({"hash_tags":1,"nodes":[],"tokens":[]})"}) {
    list.push_back(Refused("tokens", text));
  }
  const std::string a = R"({"id":"a","address":"h:1"})";
  const std::string b = R"({"id":"b","address":"h:2"})";
  const std::pair<std::string, std::string> nodes_and_tokens[] = {
      {R"({"id":"a"})", ""},
      {R"({"id":"A","address":"h:1"})", ""},
      {R"({"id":"a","address":"h"})", ""},
      {a, ""},
      {a, R"({"token":"g","node":"a"})"},
      {a, R"({"token":"","node":"a"})"},
      {a, R"({"token":"00000000000000001","node":"a"})"},
      {a, R"({"token":"1","node":"b"})"},
      {a + "," + a, R"({"token":"1","node":"a"})"},
      {a + "," + b, R"({"token":"1","node":"a"},{"token":"01","node":"b"})"},
  };
  for (const auto& [nodes, listed] : nodes_and_tokens) {
    list.push_back(
        Refused("tokens", fmt::format(R"({{"nodes":[{}],"tokens":[{}]}})", nodes, listed)));
  }
  std::string cut = kNodetool;
  cut.erase(cut.find("10.0.0.3"), cut.find("\n  Warning") - cut.find("10.0.0.3"));
  std::string joining = kNodetool;
  joining.replace(joining.find("Normal  98.1"), 6, "Joining");
  for (const std::string& text :
       {cut, joining, std::string("10.0.0.1 9223372036854775808\n"), std::string("10.0.0.1 1 2\n"),
        std::string("7\n7\n"), std::string("7\n10.0.0.1 8\n"),
        std::string("10.0.0.1 5\n10.0.0.2 5\n"), std::string("Datacenter: a\nDatacenter: b\n"),
        std::string("Datacenter:\n")}) {
    list.push_back(Refused("cassandra-tokens", text));
  }
  for (const char* text : {R"({"hosts":[]})", R"({"hosts":["h"]})", R"({"hosts":["h:1","h:1"]})",
                           R"({"hosts":["h:1",{"address":"i:1","weight":2}]})",
                           R"({"hosts":[{"address":"i:1","weight":0}]})",
                           R"({"hosts":[{"address":"i:1","weight":-1}]})",
                           R"({"hosts":[{"address":"i:1","hash_key":""}]})", R"({"hosts":[{}]})",
                           R"({"hosts":["h:1"],"hash_function":"MURMUR_HASH_2"})",
                           R"({"hosts":["h:1"],"minimum_ring_size":8388609})",
                           R"({"hosts":["h:1"],"maximum_ring_size":8388609})",
                           R"({"hosts":["h:1","i:1"],"minimum_ring_size":3,"maximum_ring_size":3})",
                           R"({"hosts":["h:1"],"hashes_per_host":0})",
                           R"({"hosts":["h:1"],"hashes_per_host":8,"minimum_ring_size":8})"}) {
    list.push_back(Refused("envoy", text));
  }
  return list;
}

}  // namespace

Json ImportVectors() {
  return {{"about", "Fleets of other systems, and the rings that they mean"},
          {"files", Files()},
          {"refused", RefusedFiles()}};
}

}  // namespace warmring
