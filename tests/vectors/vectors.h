#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/hash_range.h"
#include "core/membership/update.h"

// The vectors that every implementation of lookup must agree with, made by the core library. Pure:
// the same text on every machine. docs/spec/placement.md section 12 says what each field means.

namespace warmring {

// One file of tests/vectors.
struct VectorFile {
  std::string name;  // "hash.json"
  std::string text;
};
std::vector<VectorFile> AllVectorFiles();

// The value of each file, in the order of its fields.
nlohmann::ordered_json HashVectors();
nlohmann::ordered_json TagVectors();
nlohmann::ordered_json TokenVectors();
nlohmann::ordered_json OwnerVectors();
nlohmann::ordered_json OverrideVectors();
nlohmann::ordered_json PreferenceVectors();
nlohmann::ordered_json DiffVectors();
nlohmann::ordered_json AllocatorVectors();
nlohmann::ordered_json RanksVectors();
nlohmann::ordered_json RendezvousVectors();
nlohmann::ordered_json ImportVectors();
nlohmann::ordered_json VersionVectors();
nlohmann::ordered_json InvalidVectors();

// How the files write things: 16 lower-case hex digits, bytes as hex digits, a measure as hex
// digits of no fixed number (2^64 has 17), `[start, end]`.
// Moves are {"from", "to", "ranges", "measure"}.
std::string Hex(uint64_t value);
std::string HexBytes(std::string_view bytes);
std::string HexMeasure(HashMeasure measure);
nlohmann::ordered_json RangesJson(const HashRangeSet& set);
nlohmann::ordered_json MovesJson(const std::vector<RangeMove>& moves);
// Number of points that the moves cover.
HashMeasure Moved(const std::vector<RangeMove>& moves);

// Points that look random and are the same everywhere: XXH3_64 of "point:<i>".
HashPoint SamplePoint(uint64_t i);

}  // namespace warmring
