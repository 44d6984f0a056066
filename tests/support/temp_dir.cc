#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace warmring::support {

absl::StatusOr<std::unique_ptr<TempDir>> TempDir::Create(std::string_view label) {
  const char* parent = std::getenv("TMPDIR");
  if (parent == nullptr || *parent == '\0') parent = "/tmp";
  std::string path = fmt::format("{}/warmring-{}-XXXXXX", parent, label);
  if (mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(fmt::format(
        "cannot make the directory {}: {}; point TMPDIR to a directory that may be written", path,
        std::strerror(errno)));
  }
  return std::unique_ptr<TempDir>(new TempDir(std::move(path)));
}

TempDir::~TempDir() {
  if (std::getenv("WARMRING_KEEP_TEMP") != nullptr) return;
  // A process that dies at this moment may still add a file, so that one pass can find the
  // directory not empty.
  std::error_code error;
  for (int pass = 0; pass < 3; ++pass) {
    std::filesystem::remove_all(path_, error);
    if (!error) return;
  }
}

std::string TempDir::File(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

}  // namespace warmring::support
