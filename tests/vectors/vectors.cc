#include "tests/vectors/vectors.h"

#include <fmt/format.h>

#include "core/hashing/key_hash.h"

namespace warmring {
namespace {

using Json = nlohmann::ordered_json;

// One vector a line, so that a change of one is a change of one line.
std::string Pretty(const Json& file) {
  std::string out = "{";
  std::string_view before_field = "\n";
  for (const auto& [field, value] : file.items()) {
    out += fmt::format("{}  {}: ", before_field, Json(field).dump());
    before_field = ",\n";
    if (!value.is_array()) {
      out += value.dump();
      continue;
    }
    std::string_view before_item = "[\n";
    for (const Json& item : value) {
      out += fmt::format("{}    {}", before_item, item.dump());
      before_item = ",\n";
    }
    out += "\n  ]";
  }
  return out + "\n}\n";
}

}  // namespace

std::vector<VectorFile> AllVectorFiles() {
  return {{"hash.json", Pretty(HashVectors())},
          {"tag.json", Pretty(TagVectors())},
          {"token.json", Pretty(TokenVectors())},
          {"owner.json", Pretty(OwnerVectors())},
          {"override.json", Pretty(OverrideVectors())},
          {"preference.json", Pretty(PreferenceVectors())},
          {"diff.json", Pretty(DiffVectors())},
          {"allocator.json", Pretty(AllocatorVectors())},
          {"ranks.json", Pretty(RanksVectors())},
          {"rendezvous.json", Pretty(RendezvousVectors())},
          {"import.json", Pretty(ImportVectors())},
          {"version.json", Pretty(VersionVectors())},
          {"invalid.json", Pretty(InvalidVectors())}};
}

std::string Hex(uint64_t value) { return fmt::format("{:016x}", value); }

std::string HexBytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string HexMeasure(HashMeasure measure) {
  const auto high = static_cast<uint64_t>(measure >> 64);
  const auto low = static_cast<uint64_t>(measure);
  return high == 0 ? fmt::format("{:x}", low) : fmt::format("{:x}{:016x}", high, low);
}

Json RangesJson(const HashRangeSet& set) {
  Json ranges = Json::array();
  for (const HashRange& range : set.Ranges()) ranges.push_back({Hex(range.start), Hex(range.end)});
  return ranges;
}

HashMeasure Moved(const std::vector<RangeMove>& moves) {
  HashMeasure moved = 0;
  for (const RangeMove& move : moves) moved += move.ranges.Measure();
  return moved;
}

Json MovesJson(const std::vector<RangeMove>& moves) {
  Json list = Json::array();
  for (const RangeMove& move : moves) {
    list.push_back({{"from", move.from},
                    {"to", move.to},
                    {"ranges", RangesJson(move.ranges)},
                    {"measure", HexMeasure(move.ranges.Measure())}});
  }
  return list;
}

HashPoint SamplePoint(uint64_t i) { return HashKey(HashSpec(), fmt::format("point:{}", i)); }

}  // namespace warmring
