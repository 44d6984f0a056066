#include "client/sync/last_known_good.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "client/base/failpoint.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"

namespace warmring {
namespace {

constexpr off_t kMaxBytes = off_t{1} << 30;

absl::Status SystemError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(
      fmt::format("cache file {}: {}: {}", path, what, std::strerror(errno)));
}

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(open(path.c_str(), flags, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

absl::Status WriteAll(const File& file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError("write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  const File file(path, O_RDONLY | O_CLOEXEC);
  if (!file.ok()) {
    if (errno == ENOENT) return absl::NotFoundError(fmt::format("cache file {}: none yet", path));
    return SystemError("open", path);
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return SystemError("stat", path);
  if (!S_ISREG(info.st_mode) || info.st_size > kMaxBytes) {
    return absl::DataLossError(fmt::format("cache file {}: not a file of this library", path));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

absl::Status LastKnownGood::Write(const Membership& membership) const {
  const std::string temporary = path_ + ".tmp";
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    if (!file.ok()) return SystemError("create", temporary);
    const std::string bytes = SealMembership(membership);
    const std::string_view half = std::string_view(bytes).substr(0, bytes.size() / 2);
    RETURN_IF_ERROR(WriteAll(file, half, temporary));
    WARMRING_FP("cache.half");
    RETURN_IF_ERROR(WriteAll(file, std::string_view(bytes).substr(half.size()), temporary));
    if (fsync(file.get()) != 0) return SystemError("fsync", temporary);
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) return SystemError("rename to", path_);
  const std::string directory = DirectoryOf(path_);
  const File handle(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!handle.ok() || fsync(handle.get()) != 0) return SystemError("fsync", directory);
  return absl::OkStatus();
}

absl::StatusOr<Membership::Ptr> LastKnownGood::Read(const KeyspaceId& keyspace) const {
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(path_));
  ASSIGN_OR_RETURN(Membership::Ptr membership, UnsealMembership(bytes));
  if (membership->spec().id != keyspace) {
    return absl::FailedPreconditionError(
        fmt::format("cache file {}: it is of keyspace {}, not of {}; give each "
                    "keyspace a file of "
                    "its own, or delete it",
                    path_, membership->spec().id, keyspace));
  }
  return membership;
}

}  // namespace warmring
