#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace warmring::demo {

// How the load reads and writes through the cache. Thread-safe.
class CacheClient {
 public:
  virtual ~CacheClient() = default;
  // Read-through: the cache, else the origin.
  virtual absl::StatusOr<std::string> Read(const std::string& key) = 0;
  // The origin first, then the cache. `keep` sets the new value in the cache, else it is deleted.
  virtual absl::Status Write(const std::string& key, const std::string& value, bool keep) = 0;
};

}  // namespace warmring::demo
