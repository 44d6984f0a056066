#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "tests/bench/ownership_part.h"

namespace warmring::bench {

// A figure that could not be measured is null, with the reason beside it.
inline void Miss(OwnershipReport& headline, std::initializer_list<const char*> keys,
                 const absl::Status& why) {
  for (const char* key : keys) {
    headline[key] = nullptr;
    headline[std::string(key) + "_reason"] = std::string(why.message());
  }
}

}  // namespace warmring::bench
