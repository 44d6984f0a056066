#include "core/ownership/fill_tokens.h"

#include <fmt/format.h>

namespace warmring {

FillTokens::FillTokens(const Incarnation& incarnation)
    : incarnation_(incarnation.ToString()),
      counters_(std::make_unique<std::array<uint64_t, kStripes>>()) {}

std::string FillTokens::Issue(HashPoint hash, Epoch epoch) const {
  const uint64_t stripe = hash % kStripes;
  return fmt::format("{}-{:x}-{:04x}-{:x}", incarnation_, epoch.value, stripe,
                     (*counters_)[stripe]);
}

void FillTokens::BumpAll() {
  for (uint64_t& counter : *counters_) ++counter;
}

bool FillTokens::IsValid(std::string_view token, HashPoint hash, Epoch epoch) const {
  return token == Issue(hash, epoch);
}

}  // namespace warmring
