// The committed files are what the core library says today, so that no change of it can go by
// unseen; and what they say is right by other evidence than the core library: values that others
// published, and lookups done here in the most plain way.

#include "tests/vectors/vectors.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace warmring
