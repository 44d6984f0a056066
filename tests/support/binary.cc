#include "tests/support/binary.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "fmt/format.h"

namespace warmring::support {

std::string BinaryDir() {
  const char* from_environment = std::getenv("WARMRING_BIN_DIR");
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

absl::StatusOr<std::string> BinaryPath(std::string_view name) {
  const std::string dir = BinaryDir();
  std::string path = fmt::format("{}/{}", dir, name);
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  return absl::NotFoundError(
      fmt::format("{} is not in {}; build it, or set WARMRING_BIN_DIR to the directory that has it",
                  name, dir));
}

}  // namespace warmring::support
