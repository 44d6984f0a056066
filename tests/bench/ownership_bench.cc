// Measures what ownership costs, part by part. scripts/bench ownership builds and runs it.
//
//   ownership_bench [--out FILE] [--cpu N] [--quick] [--part NAME]...

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/bench/admission.h"
#include "tests/bench/handover_part.h"
#include "tests/bench/ownership_part.h"
#include "tests/bench/report_file.h"
#include "tests/bench/simulation_part.h"

namespace warmring::bench {
namespace {

const std::vector<std::pair<std::string_view, OwnershipPart>> kParts = {
    {"admission", AddAdmission},
    {"handover", AddHandover},
    {"simulation", AddSimulation},
    {"kills", AddKills},
};

struct Arguments {
  std::string out;
  PartOptions part;
  std::vector<std::string_view> parts;  // empty: all
};

bool IsPart(std::string_view name) {
  return std::any_of(kParts.begin(), kParts.end(),
                     [name](const auto& part) { return part.first == name; });
}

bool Parse(const std::vector<std::string_view>& words, Arguments& arguments) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--quick") {
      arguments.part.quick = true;
      continue;
    }
    if (i + 1 >= words.size()) return false;
    const std::string_view value = words[i + 1];
    if (words[i] == "--out") {
      arguments.out = value;
    } else if (words[i] == "--part" && IsPart(value)) {
      arguments.parts.push_back(value);
    } else if (words[i] == "--cpu") {
      const char* const last = value.data() + value.size();
      const auto [end, error] = std::from_chars(value.data(), last, arguments.part.cpu);
      if (error != std::errc() || end != last || arguments.part.cpu < 0) return false;
    } else {
      return false;
    }
    ++i;
  }
  return true;
}

std::string ToText(const OwnershipReport& value, const std::string& indent = "") {
  std::string text;
  for (const auto& [key, field] : value.items()) {
    if (field.is_array()) {
      text += fmt::format("{}{}\n", indent, key);
      for (const auto& row : field) text += fmt::format("{}  {}\n", indent, row.dump());
    } else if (field.is_object()) {
      text += fmt::format("{}{}\n{}", indent, key, ToText(field, indent + "  "));
    } else if (field.is_number_float()) {
      text += fmt::format("{}{:<34} {:.2f}\n", indent, key, field.get<double>());
    } else {
      text += fmt::format("{}{:<34} {}\n", indent, key, field.dump());
    }
  }
  return text;
}

int Main(const std::vector<std::string_view>& words) {
  Arguments arguments;
  if (!Parse(words, arguments)) {
    fmt::print(stderr,
               "ownership_bench: usage: ownership_bench [--out FILE] [--cpu N] [--quick] "
               "[--part NAME]...\n");
    return 2;
  }
  OwnershipReport report = {{"headline", OwnershipReport::object()}};
  for (const auto& [name, run] : kParts) {
    const bool chosen =
        std::find(arguments.parts.begin(), arguments.parts.end(), name) != arguments.parts.end();
    if (chosen || arguments.parts.empty()) run(arguments.part, report);
  }
  fmt::print("{}", ToText(report));
  return WriteReport("ownership_bench", arguments.out, report) ? 0 : 1;
}

}  // namespace
}  // namespace warmring::bench

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Where the programs are that it starts.
  const std::string beside = std::filesystem::canonical("/proc/self/exe").parent_path();
  setenv("WARMRING_BIN_DIR", beside.c_str(), 0);
  return warmring::bench::Main({argv + 1, argv + argc});
}
