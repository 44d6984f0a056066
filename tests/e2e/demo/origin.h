#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/e2e/demo/timeline.h"

struct pg_conn;

namespace warmring::demo {

// What backs the fleet: a table in a real PostgreSQL behind a bounded number of connections, each
// query costing a few milliseconds of waiting as it would on a disk. A caller that finds all
// connections busy waits, which is how a cold node sets a database on fire. Thread-safe.
class Origin {
 public:
  // Creates and fills the table with values of sequence 0.
  // Errors: Unavailable with libpq's message.
  static absl::StatusOr<std::unique_ptr<Origin>> Create(const std::string& connection_string,
                                                        uint32_t keys, int connections,
                                                        Timeline* reads);
  ~Origin();

  absl::StatusOr<std::string> Fetch(const std::string& key);
  absl::Status Store(const std::string& key, const std::string& value);

 private:
  explicit Origin(Timeline* reads) : reads_(reads) {}
  absl::StatusOr<std::string> Execute(const char* statement,
                                      const std::vector<std::string>& parameters);

  Timeline* reads_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<pg_conn*> connections_;  // those that nobody uses now
};

// Values carry the sequence of their write in front.
std::string KeyName(uint32_t rank);
std::string MakeValue(uint64_t sequence);
// Error: InvalidArgument when the value is not one of ours.
absl::StatusOr<uint64_t> SequenceOf(const std::string& value);

}  // namespace warmring::demo
