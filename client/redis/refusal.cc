#include "client/redis/refusal.h"

#include <array>
#include <charconv>
#include <utility>

namespace warmring {
namespace {

constexpr std::array<std::pair<std::string_view, RefusalCode>, 7> kCodes = {{
    {"WRMOVED", RefusalCode::kMoved},
    {"WRSTALE", RefusalCode::kStale},
    {"WRHISTORY", RefusalCode::kHistory},
    {"WRBEHIND", RefusalCode::kBehind},
    {"WRFENCING", RefusalCode::kFencing},
    {"WRNOLEASE", RefusalCode::kNoLease},
    {"WRBUSY", RefusalCode::kBusy},
}};

// Cuts the first word off; empty when there is none left.
std::string_view TakeWord(std::string_view& rest) {
  const size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return word;
}

std::string DashIsEmpty(std::string_view word) { return word == "-" ? "" : std::string(word); }

}  // namespace

std::string_view RefusalName(RefusalCode code) {
  for (const auto& [name, value] : kCodes) {
    if (value == code) return name;
  }
  return "WRUNKNOWN";
}

std::optional<Refusal> ParseRefusal(std::string_view error) {
  std::string_view rest = error;
  const std::string_view name = TakeWord(rest);
  for (const auto& [known, code] : kCodes) {
    if (known != name) continue;
    Refusal refusal;
    refusal.code = code;
    refusal.word = DashIsEmpty(TakeWord(rest));
    const std::string_view version = TakeWord(rest);
    const auto [end, error_code] =
        std::from_chars(version.data(), version.data() + version.size(), refusal.version.value);
    if (error_code != std::errc() || end != version.data() + version.size()) return std::nullopt;
    refusal.owner_address = DashIsEmpty(TakeWord(rest));
    refusal.text = std::string(rest);
    return refusal;
  }
  return std::nullopt;
}

}  // namespace warmring
