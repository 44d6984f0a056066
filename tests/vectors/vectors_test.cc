// The committed files are what the core library says today, so that no change of it can go by
// unseen; and what they say is right by other evidence than the core library: values that others
// published, and lookups done here in the most plain way.

#include "tests/vectors/vectors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hashing/key_hash.h"
#include "core/membership/update.h"
#include "tests/vectors/fleet.h"

namespace warmring {
namespace {

using Json = nlohmann::json;

std::filesystem::path Directory() {
  const char* source = std::getenv("WARMRING_SOURCE_DIR");
  return std::filesystem::path(source == nullptr ? "." : source) / "tests/vectors";
}

std::string ReadText(const std::string& name) {
  std::ifstream in(Directory() / name, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Json Read(const std::string& name) { return Json::parse(ReadText(name)); }

uint64_t Number(const Json& hex) { return std::stoull(hex.get<std::string>(), nullptr, 16); }

std::string Bytes(const Json& hex) {
  const std::string text = hex.get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(VectorsTest, FilesAreWhatTheCoreLibrarySays) {
  for (const VectorFile& file : AllVectorFiles()) {
    const std::string committed = ReadText(file.name);
    if (committed == file.text) continue;
    const std::vector<std::string> expected = Lines(file.text);
    const std::vector<std::string> found = Lines(committed);
    size_t at = 0;
    while (at < expected.size() && at < found.size() && expected[at] == found[at]) ++at;
    ADD_FAILURE() << file.name << " differs from line " << at + 1
                  << " on: run bin/warmring-vectors " << Directory()
                  << " if the contract is meant to change\ncommitted: "
                  << (at < found.size() ? found[at].substr(0, 400) : "(nothing)") << "\ngenerated: "
                  << (at < expected.size() ? expected[at].substr(0, 400) : "(nothing)");
  }
}

TEST(VectorsTest, EachFileInTheFolderIsGenerated) {
  std::set<std::string> generated;
  for (const VectorFile& file : AllVectorFiles()) generated.insert(file.name);
  std::set<std::string> committed;
  for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
    if (entry.path().extension() == ".json") committed.insert(entry.path().filename());
  }
  EXPECT_EQ(committed, generated);
}

// XSUM_XXH3_testdata of the xxHash project: the first `size` bytes of its test buffer, under seed 0
// and under its 64-bit prime.
TEST(VectorsTest, HashesAreThosePublishedWithXxhash) {
  const struct {
    size_t size;
    uint64_t hash;
    uint64_t seeded;
  } published[] = {
      {0, 0x2d06800538d394c2, 0xa8a6b918b2f0364a},
      {1, 0xc44bdff4074eecdb, 0x032be332dd766ef8},
      {6, 0x27b56a84cd2d7325, 0x84589c116ab59ab9},
      {12, 0xa713daf0dfbb77e7, 0xe7303e1b2336de0e},
      {24, 0xa3fe70bf9d3510eb, 0x850e80fc35bdd690},
      {48, 0x397da259ecba1f11, 0xadc2cbaa44acc616},
      {80, 0xbcdefbbb2c47c90a, 0xc6dd0cb699532e73},
      {195, 0xcd94217ee362ec3a, 0xba68003d370cb3d9},
      {403, 0xcdeb804d65c6dea4, 0x6259f6ecfd6443fd},
      {512, 0x617e49599013cb6b, 0x3ce457de14c27708},
      {2048, 0xdd59e2c3a5f038e0, 0x66f81670669ababc},
      {2240, 0x6e73a90539cf2948, 0x757ba8487d1b5247},
      {2367, 0xcb37aeb9e5d361ed, 0xd2db3415b942b42a},
  };
  // The buffer comes first in the file, the keys of other kinds after it.
  std::map<size_t, Json> by_size;
  const Json file = Read("hash.json");
  for (const Json& key : file["keys"]) {
    by_size.emplace(key["bytes"].get<std::string>().size() / 2, key);
  }
  for (const auto& expected : published) {
    ASSERT_TRUE(by_size.contains(expected.size)) << expected.size;
    const Json& key = by_size[expected.size];
    EXPECT_EQ(Number(key["hash"]), expected.hash) << expected.size;
    EXPECT_EQ(Number(key["seed"]), 0x9e3779b185ebca8d);
    EXPECT_EQ(Number(key["seeded_hash"]), expected.seeded) << expected.size;
  }
}

// Values that the projects of these functions publish: xxHash's test, the check value of
// CRC-16/XMODEM (0x31c3), a token of Cassandra's own tests, and RFC 1321's MD5 of nothing.
TEST(VectorsTest, AdoptedHashesAreThosePublished) {
  const Json file = Read("hash.json");
  std::map<std::string, Json> by_key;
  for (const Json& key : file["adopted"]) by_key[Bytes(key["bytes"])] = key;
  EXPECT_EQ(Number(by_key.at("")["xxh64"]), 0xef46db3751d8e999);
  EXPECT_EQ(Number(by_key.at(std::string(1, '\0'))["xxh64"]), 0xe934a84adb052768);
  EXPECT_EQ(Number(by_key.at("123456789")["crc16"]), uint64_t{0x31c3 % 16384} << 50);
  EXPECT_EQ(Number(by_key.at("")["ketama"]), uint64_t{0xd98c1dd4} << 32);
  EXPECT_EQ(Number(by_key.at("")["murmur3"]), 0u);
  EXPECT_EQ(Number(by_key.at("123")["murmur3"]) ^ (uint64_t{1} << 63),
            static_cast<uint64_t>(-7468325962851647638));
}

// The examples of the Redis Cluster specification.
TEST(VectorsTest, TagsAreThoseOfTheRedisClusterSpecification) {
  std::map<std::string, std::string> tags;
  const Json file = Read("tag.json");
  for (const Json& key : file["keys"]) tags[Bytes(key["key"])] = Bytes(key["tag"]);
  EXPECT_EQ(tags.at("{user1000}.following"), "user1000");
  EXPECT_EQ(tags.at("{user1000}.followers"), "user1000");
  EXPECT_EQ(tags.at("foo{}{bar}"), "foo{}{bar}");
  EXPECT_EQ(tags.at("foo{{bar}}zap"), "{bar");
  EXPECT_EQ(tags.at("foo{bar}{zap}"), "bar");
}

// Owner of the lowest end at or above `point`, or else of the lowest of all.
std::string PlainOwner(const Json& ranges, uint64_t point) {
  std::optional<std::pair<uint64_t, std::string>> best;
  std::optional<std::pair<uint64_t, std::string>> lowest;
  for (const Json& range : ranges) {
    const std::pair<uint64_t, std::string> item(Number(range[0]), range[1]);
    if (item.first >= point && (!best || item < *best)) best = item;
    if (!lowest || item < *lowest) lowest = item;
  }
  return best ? best->second : lowest->second;
}

TEST(VectorsTest, OwnersAreThoseOfAPlainSearch) {
  const Json file = Read("owner.json");
  for (const Json& membership : file["memberships"]) {
    for (const Json& point : membership["points"]) {
      EXPECT_EQ(point[1], PlainOwner(membership["ranges"], Number(point[0])))
          << membership["name"] << " " << point;
    }
  }
  for (const Json& directory : file["directories"]) {
    const std::string owners = directory["owners"];
    const uint64_t width = UINT64_MAX / (uint64_t{1} << directory["bits"].get<unsigned>()) + 1;
    for (const Json& point : directory["points"]) {
      const char digit = owners[Number(point[0]) / width % owners.size()];
      EXPECT_EQ(point[1], directory["nodes"][std::stoul(std::string(1, digit), nullptr, 36)]["id"])
          << directory["name"] << " " << point;
    }
  }
}

// Five nodes with 256 virtual nodes each, and a sixth one joins: all of its arcs are cold at once.
TEST(VectorsTest, TheIncidentInNumbers) {
  const Json file = Read("diff.json");
  const Json& incident = file["derived_rings"][0];
  EXPECT_EQ(incident["tokens_per_node"], 256);
  EXPECT_EQ(incident["before"].size(), 5u);
  EXPECT_EQ(incident["after"].size(), 6u);
  EXPECT_EQ(incident["moved_arcs"], 256);
  EXPECT_EQ(incident["moved_ranges"], 213);
  EXPECT_EQ(incident["moved_ppm"], 167782);  // a sixth is 166667
  EXPECT_EQ(incident["flows"].size(), 5u);   // every node gives
  for (const Json& flow : incident["flows"]) EXPECT_EQ(flow["to"], "n6");

  const Json& back = file["derived_rings"][1];
  EXPECT_EQ(back["moved"], incident["moved"]);
}

// A step of the allocator leads to the ring that one would derive from nothing, as the
// specification promises, so that the incident's numbers are those of a migration too.
TEST(VectorsTest, AStepOfTheRingLeadsToTheDerivedRing) {
  const std::vector<Node> five = FleetNodes({"n1", "n2", "n3", "n4", "n5"});
  const std::vector<Node> six = FleetNodes({"n1", "n2", "n3", "n4", "n5", "n6"});
  const Membership::Ptr before = NewFleet(RingSpec(256), five);
  const Membership::Ptr after = Changed(*before, {FleetNode("n6")}, {});
  EXPECT_TRUE(Diff(*after, *NewFleet(RingSpec(256), six)).empty());
  EXPECT_TRUE(Diff(*Changed(*after, {}, {"n6"}), *before).empty());
}

TEST(VectorsTest, ModuloMovesFourFifths) {
  const Json file = Read("diff.json");
  const Json& seed = file["modulo"][0];
  EXPECT_EQ(seed["hashes_below"], 20);
  EXPECT_EQ(seed["nodes_before"], 4);
  EXPECT_EQ(seed["nodes_after"], 5);
  EXPECT_EQ(seed["moved"], 16);
  EXPECT_EQ(seed["moved_percent"], 80);
}

bool Contains(const Json& ranges, uint64_t point) {
  for (const Json& range : ranges) {
    const uint64_t start = Number(range[0]);
    if (point - start - 1 <= Number(range[1]) - start - 1) return true;
  }
  return false;
}

// Each point changes hands exactly as the moves say, and at the points where something can change.
TEST(VectorsTest, DiffsAreThoseOfAPlainSearch) {
  const Json file = Read("diff.json");
  for (const Json& diff : file["memberships"]) {
    for (const char* side : {"before", "after"}) {
      for (const Json& range : diff[side]) {
        for (const uint64_t point : {Number(range[0]), Number(range[0]) + 1}) {
          const std::string from = PlainOwner(diff["before"], point);
          const std::string to = PlainOwner(diff["after"], point);
          size_t named = 0;
          for (const Json& move : diff["moves"]) {
            if (!Contains(move["ranges"], point)) continue;
            ++named;
            EXPECT_EQ(move["from"], from) << diff["name"] << " " << point;
            EXPECT_EQ(move["to"], to) << diff["name"] << " " << point;
          }
          EXPECT_EQ(named, from == to ? 0u : 1u) << diff["name"] << " " << point;
        }
      }
    }
  }
}

std::vector<std::string> OwnerIds(const Json& step) {
  std::vector<std::string> owners;
  for (const char digit : step["owners"].get<std::string>()) {
    owners.push_back(step["nodes"][std::stoul(std::string(1, digit), nullptr, 36)]["id"]);
  }
  return owners;
}

// A step moves what the nodes that left had and what the new ones are due, and nothing between
// nodes that stay; each node ends within one bucket of its share by weight.
TEST(VectorsTest, StepsOfTheAllocatorMoveTheLeastAndBalance) {
  const Json file = Read("allocator.json");
  for (const Json& story : file["stories"]) {
    std::vector<std::string> before;
    for (const Json& step : story["steps"]) {
      SCOPED_TRACE(story["name"].get<std::string>() + ": " + step["change"].get<std::string>());
      const std::vector<std::string> after = OwnerIds(step);
      ASSERT_EQ(after.size(), size_t{1} << story["bits"].get<unsigned>());
      std::map<std::string, uint64_t> owned;
      for (const std::string& owner : after) ++owned[owner];
      uint64_t weights = 0;
      for (const Json& node : step["nodes"]) weights += node["weight_milli"].get<uint64_t>();
      for (const Json& node : step["nodes"]) {
        const uint64_t share = after.size() * node["weight_milli"].get<uint64_t>() / weights;
        const uint64_t has = owned[node["id"]];
        EXPECT_TRUE(has == share || has == share + 1) << node << " owns " << has << " of " << share;
      }
      std::set<std::string> present;
      for (const Json& node : step["nodes"]) present.insert(node["id"]);
      const std::set<std::string> past(before.begin(), before.end());
      uint64_t moved = 0;
      for (size_t bucket = 0; bucket < before.size(); ++bucket) {
        if (before[bucket] == after[bucket]) continue;
        ++moved;
        EXPECT_TRUE(!present.contains(before[bucket]) || !past.contains(after[bucket]))
            << bucket << " moves from " << before[bucket] << " to " << after[bucket];
      }
      EXPECT_EQ(step["moved"], moved);
      before = after;
    }
  }
}

// Points from `start` to `end`, as a fraction of the space.
double ShareOf(uint64_t start, uint64_t end) {
  return (static_cast<double>(end - start - 1) + 1) / 18446744073709551616.0;
}

// A new ring whose tokens are chosen is exact; a join takes the newcomer's share, or a little less
// where the fullest nodes have no arcs as large as its pieces.
TEST(VectorsTest, ChosenTokensKeepTheShares) {
  const Json file = Read("allocator.json");
  for (const Json& story : file["ring_stories"]) {
    if (story["allocator"] != "deliberate") continue;
    std::set<std::string> before;
    for (const Json& step : story["steps"]) {
      SCOPED_TRACE(story["name"].get<std::string>() + ": " + step["change"].get<std::string>());
      std::map<std::string, double> shares;
      uint64_t start = Number(step["ranges"].back()[0]);
      for (const Json& range : step["ranges"]) {
        shares[range[1]] += ShareOf(start, Number(range[0]));
        start = Number(range[0]);
      }
      double weights = 0;
      for (const Json& node : step["nodes"]) weights += node["weight_milli"].get<double>();
      for (const Json& node : step["nodes"]) {
        if (before.contains(node["id"])) continue;
        const double due = node["weight_milli"].get<double>() / weights;
        EXPECT_LE(shares[node["id"]], due + 1e-9) << node;
        EXPECT_GE(shares[node["id"]], before.empty() ? due - 1e-9 : due * 0.9) << node;
      }
      before.clear();
      for (const Json& node : step["nodes"]) before.insert(node["id"]);
    }
  }
}

// Who has the slots, by bucket and rank; empty for nobody.
std::vector<std::vector<std::string>> Copies(const Json& nodes, const std::string& owners,
                                             size_t ranks) {
  std::vector<std::vector<std::string>> copies(owners.size() / ranks);
  for (size_t slot = 0; slot < owners.size(); ++slot) {
    const std::string digit(1, owners[slot]);
    copies[slot / ranks].push_back(
        digit == "." ? "" : nodes[std::stoul(digit, nullptr, 36)]["id"].get<std::string>());
  }
  return copies;
}

std::map<std::string, std::string> DomainsOf(const Json& nodes) {
  std::map<std::string, std::string> domains;
  for (const Json& node : nodes) {
    domains[node["id"]] = node.contains("domain") ? "named " + node["domain"].get<std::string>()
                                                  : "own " + node["id"].get<std::string>();
  }
  return domains;
}

// The slots after a step: after the last of its parts that changed any.
std::string SlotsAfter(const Json& step) {
  if (!step.contains("parts")) return step["owners"];
  for (const char* part : {"ranks", "exchange", "take"}) {
    if (step["parts"].contains(part)) return step["parts"][part];
  }
  return step["parts"]["forced"];
}

// Ranks are different nodes, on distinct domains where that is asked for, and where only the nodes
// ask for the step each has its target, within one slot as much of one rank as of another.
TEST(VectorsTest, RanksStandOnDistinctDomainsAndAreEven) {
  const Json file = Read("ranks.json");
  size_t refused = 0;
  size_t chains = 0;
  for (const Json& story : file["stories"]) {
    const size_t ranks = story["ranks"];
    for (const Json& step : story["steps"]) {
      SCOPED_TRACE(story["name"].get<std::string>() + ": " + step["change"].get<std::string>());
      if (step.contains("refused")) {
        ++refused;
        continue;
      }
      std::map<std::string, std::string> domains = DomainsOf(step["nodes"]);
      std::map<std::string, std::vector<uint64_t>> owned;
      for (const auto& bucket : Copies(step["nodes"], SlotsAfter(step), ranks)) {
        std::set<std::string> nodes;
        std::set<std::string> used;
        for (size_t rank = 0; rank < ranks; ++rank) {
          if (bucket[rank].empty()) continue;
          EXPECT_TRUE(nodes.insert(bucket[rank]).second);
          EXPECT_TRUE(used.insert(domains[bucket[rank]]).second || !story["strict"].get<bool>());
          owned[bucket[rank]].resize(ranks);
          ++owned[bucket[rank]][rank];
        }
        EXPECT_EQ(nodes.size(), std::min(ranks, step["nodes"].size()));
      }
      EXPECT_TRUE(step["violations"] == 0 || !story["strict"].get<bool>());
      if (!step.contains("parts")) continue;
      if (step["parts"].contains("exchange")) ++chains;
      for (size_t i = 0; i < step["nodes"].size(); ++i) {
        const std::vector<uint64_t> targets = step["parts"]["targets"][i];
        std::vector<uint64_t>& has = owned[step["nodes"][i]["id"]];
        has.resize(targets.size());
        EXPECT_EQ(std::accumulate(has.begin(), has.end(), uint64_t{0}),
                  std::accumulate(targets.begin(), targets.end(), uint64_t{0}));
        EXPECT_LE(*std::max_element(has.begin(), has.end()),
                  *std::min_element(has.begin(), has.end()) + 1);
      }
    }
  }
  EXPECT_GE(refused, 15u);
  EXPECT_GE(chains, 1u);
}

TEST(VectorsTest, RendezvousFollowsTheLogarithm) {
  const Json file = Read("rendezvous.json");
  for (const Json& pair : file["logarithms"]) {
    const double u = static_cast<double>(Number(pair[0]));
    EXPECT_NEAR(std::ldexp(static_cast<double>(Number(pair[1])), -48), 64 - std::log2(u + 1), 1e-9)
        << pair;
  }
  const Json& four = file["directories"][1];
  const Json& five = file["directories"][2];
  const auto before = Copies(four["nodes"], four["owners"], 1);
  const auto after = Copies(five["nodes"], five["owners"], 1);
  size_t moved = 0;
  for (size_t bucket = 0; bucket < before.size(); ++bucket) {
    if (before[bucket] == after[bucket]) continue;
    EXPECT_EQ(after[bucket][0], "e");
    ++moved;
  }
  EXPECT_GT(moved, before.size() / 8);
  EXPECT_LT(moved, before.size() / 3);
}

// A join cuts at most as many pieces as the node has tokens, and moves exactly its share; the
// fullest of equal nodes stays within two pieces of the mean.
TEST(VectorsTest, ChosenTokensAreFewAndEven) {
  const Json file = Read("allocator.json");
  for (const Json& story : file["ring_stories"]) {
    if (story["name"] != "chosen tokens: from one node to eight") continue;
    const double tokens = story["tokens_per_node"];
    ASSERT_EQ(story["steps"].size(), 8u);
    for (size_t i = 1; i < 8; ++i) {
      const Json& step = story["steps"][i];
      const std::string joined = step["change"].get<std::string>().substr(4);
      std::map<std::string, double> shares;
      size_t arcs = 0;
      std::string previous = step["ranges"].back()[1];
      uint64_t start = Number(step["ranges"].back()[0]);
      for (const Json& range : step["ranges"]) {
        shares[range[1]] += ShareOf(start, Number(range[0]));
        start = Number(range[0]);
        if (range[1] == joined && previous != joined) ++arcs;
        previous = range[1];
      }
      EXPECT_NEAR(shares[joined] * static_cast<double>(i + 1), 1, 1e-9);
      EXPECT_NEAR(std::ldexp(static_cast<double>(Number(step["moved"])), -64), shares[joined],
                  1e-9);
      EXPECT_LE(static_cast<double>(arcs), tokens);
      for (const auto& [node, share] : shares) {
        EXPECT_LE(share * static_cast<double>(i + 1), 1 + 2 / tokens) << node << " " << i;
      }
    }
  }
}

// The owners of keys are those of the listed tokens, and each refusal begins with its place.
TEST(VectorsTest, AdoptedKeysStayWhereTheyAre) {
  const Json file = Read("import.json");
  const std::map<std::string, HashSpec::Function> functions = {
      {"xxh3", HashSpec::Function::kXxh3},       {"xxh64", HashSpec::Function::kXxh64},
      {"murmur3", HashSpec::Function::kMurmur3}, {"ketama", HashSpec::Function::kKetama},
      {"crc16", HashSpec::Function::kCrc16},
  };
  for (const Json& adopted : file["files"]) {
    if (!adopted.contains("tokens")) continue;
    HashSpec hash;
    hash.function = functions.at(adopted["hash"]);
    hash.hash_tags = adopted["hash_tags"];
    for (const Json& key : adopted["keys"]) {
      EXPECT_EQ(key[1], PlainOwner(adopted["tokens"], HashKey(hash, key[0].get<std::string>())));
    }
  }
  for (const Json& refusal : file["refused"]) {
    EXPECT_EQ(refusal["what"].get<std::string>().find(refusal["at"].get<std::string>()), 0u);
  }
}

TEST(VectorsTest, VersionsNeverGoBackWithinAHistory) {
  const Json file = Read("version.json");
  size_t backwards = 0;
  for (const Json& snapshot : file["snapshots"]) {
    if (snapshot["have"].is_null() || snapshot["have"][0] != snapshot["offered"][0]) {
      EXPECT_EQ(snapshot["action"], "take") << snapshot;
    } else if (Number(snapshot["offered"][1]) < Number(snapshot["have"][1])) {
      EXPECT_EQ(snapshot["action"], "refuse") << snapshot;
      ++backwards;
    }
  }
  EXPECT_EQ(backwards, 3u);
  for (const Json& delta : file["deltas"]) {
    if (delta["action"] != "take") continue;
    EXPECT_EQ(delta["history"], delta["have"][0]);
    EXPECT_EQ(delta["from"], delta["have"][1]);
    EXPECT_EQ(Number(delta["to"]), Number(delta["from"]) + 1);
  }
}

TEST(VectorsTest, BadInputIsRefusedUnderItsFieldsName) {
  const Json file = Read("invalid.json");
  for (const Json& id : file["ids"]) {
    const std::string bytes = Bytes(id["id"]);
    const bool valid =
        !bytes.empty() && bytes.size() <= 63 && bytes[0] >= 'a' && bytes[0] <= 'z' &&
        bytes.back() != '-' &&
        bytes.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    EXPECT_EQ(id["field"], valid ? Json(nullptr) : Json("id")) << id;
  }
  std::map<std::string, Json> weights;
  for (const Json& weight : file["weights"]) weights[weight["weight"]] = weight["field"];
  for (const char* absurd : {"0", "-1", "nan", "inf", "-inf", "1e300"}) {
    EXPECT_EQ(weights.at(absurd), "node.weight") << absurd;
  }
  EXPECT_EQ(weights.at("1"), nullptr);
  for (const Json& spec : file["specs"]) {
    if (!spec.contains("directory_bits")) continue;
    const auto bits = spec["directory_bits"].get<uint64_t>();
    EXPECT_EQ(spec["field"],
              bits >= 10 && bits <= 20 ? Json(nullptr) : Json("spec.directory_bits"));
  }
  for (const Json& delta : file["deltas"]) {
    const bool fits = delta["what"] == "on its base";
    EXPECT_EQ(delta["code"] == "OK", fits) << delta;
  }
}

}  // namespace
}  // namespace warmring
