// A process that uses the client library, to be killed: follows a keyspace, keeps its membership in
// a file, prints the version that it has, and ends.
//
//   crash_client SERVER KEYSPACE CACHE_FILE
//
// Ends 0 with a version, 1 without.

#include <string>

#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "warmring/client.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc != 4) {
    fmt::print(stderr, "usage: crash_client SERVER KEYSPACE CACHE_FILE\n");
    return 2;
  }
  warmring::ClientOptions options;
  options.endpoints = {argv[1]};
  options.keyspace = argv[2];
  options.cache_file = argv[3];
  options.connect_timeout = absl::Seconds(10);
  const auto client = warmring::Client::Connect(std::move(options));
  if (!client.ok()) {
    fmt::print(stderr, "crash_client: {}\n", std::string(client.status().message()));
    return 1;
  }
  fmt::print("version {}\n", (*client)->router().version().value);
  return 0;
}
