#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace warmring::support {

// A directory of its own under $TMPDIR (or /tmp) that is removed with everything in it when the
// object dies, unless the environment variable WARMRING_KEEP_TEMP is set (to look at the files of
// a failed run).
//
// Thread rule: Path() from any thread.
class TempDir {
 public:
  // Makes `$TMPDIR/warmring-<label>-XXXXXX` with mode 0700.
  //
  // Errors: Internal with the system's reason if the directory cannot be made.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TempDir>> Create(std::string_view label);

  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& Path() const { return path_; }
  // `<path>/<name>`; makes nothing.
  std::string File(std::string_view name) const;

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace warmring::support
