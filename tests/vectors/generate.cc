// warmring-vectors DIRECTORY: writes the vector files into it. Run it after a deliberate change of
// the contract, and read the difference: what it shows, every client in the field gets to feel.

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/synchronization/mutex.h"
#include "tests/vectors/vectors.h"

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc != 2) {
    std::fputs("usage: warmring-vectors DIRECTORY, for example tests/vectors\n", stderr);
    return 2;
  }
  for (const warmring::VectorFile& file : warmring::AllVectorFiles()) {
    const std::filesystem::path path = std::filesystem::path(argv[1]) / file.name;
    std::ofstream out(path, std::ios::binary);
    out << file.text << std::flush;
    if (!out) {
      std::fprintf(stderr, "warmring-vectors: cannot write %s\n", path.c_str());
      return 1;
    }
  }
  return 0;
}
