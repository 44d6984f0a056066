#include "server/store/rocksdb/rocksdb_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "server/executor/failpoint.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

namespace fs = std::filesystem;

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

rocksdb::Options OpenOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  // A torn tail is the normal end of a killed process, whose record nobody was told about; damage
  // anywhere else is refused, because skipping it would take back what was acknowledged.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.max_bgerror_resume_count = 0;
  options.keep_log_file_num = 4;
  options.max_log_file_size = 1 << 20;
  options.write_buffer_size = 16 << 20;
  options.max_open_files = 128;
  return options;
}

// The id and name of the process that holds RocksDB's lock, as " (process 123, warmringd)".
std::string LockHolder(const std::string& directory) {
  const int fd = open((directory + "/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return "";
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const int result = fcntl(fd, F_GETLK, &lock);
  close(fd);
  if (result != 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0) return "";
  std::string name;
  std::ifstream comm(fmt::format("/proc/{}/comm", lock.l_pid));
  std::getline(comm, name);
  return fmt::format(" (process {}{}{})", lock.l_pid, name.empty() ? "" : ", ", name);
}

// What to do about an error of DB::Open.
absl::Status OpenError(const std::string& directory, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (text.find("/LOCK") != std::string::npos || text.find("lock hold") != std::string::npos) {
    return absl::FailedPreconditionError(
        fmt::format("data directory {}: in use by another process{}: stop it, or give this server "
                    "a directory of its own with --data-dir",
                    directory,
                    // Closing a file drops this process's own locks on it: then do not look.
                    text.find("current process") == std::string::npos ? LockHolder(directory)
                                                                      : " (this process)"));
  }
  const bool damaged = status.IsCorruption() || status.IsPathNotFound() ||
                       text.find("Corruption") != std::string::npos ||
                       text.find("No such file") != std::string::npos;
  if (damaged) {
    return absl::DataLossError(
        fmt::format("data directory {}: the store is damaged ({}): restore the directory from a "
                    "copy, or save it and run `ldb repair --db={}`, which may lose the newest "
                    "changes",
                    directory, text, directory));
  }
  return absl::UnavailableError(
      fmt::format("data directory {}: cannot be opened ({})", directory, text));
}

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// RocksDB would begin a new, empty store beside the files of a damaged one or of something else.
absl::Status CheckContents(const std::string& directory) {
  if (fs::exists(directory + "/CURRENT")) return absl::OkStatus();
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (EndsWith(name, ".sst") || EndsWith(name, ".log")) {
      return absl::DataLossError(
          fmt::format("data directory {}: {} is there but CURRENT is missing, the store is "
                      "damaged: restore the directory from a copy",
                      directory, name));
    }
    // What a first start that was killed leaves behind.
    const bool harmless = name == "LOCK" || name == "IDENTITY" || name.rfind("LOG", 0) == 0 ||
                          name.rfind("MANIFEST-", 0) == 0 || name.rfind("OPTIONS-", 0) == 0 ||
                          EndsWith(name, ".dbtmp");
    if (!harmless) {
      return absl::FailedPreconditionError(
          fmt::format("data directory {}: it holds {}, which is not of a Warmring store: give an "
                      "empty or new directory",
                      directory, name));
    }
  }
  return absl::OkStatus();
}

absl::Status PrepareDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory)) {
    return absl::PermissionDeniedError(
        fmt::format("data directory {}: cannot be made ({}): create it for this user, or give "
                    "another one with --data-dir",
                    directory, error ? error.message() : "not a directory"));
  }
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("data directory {}: cannot be written ({}): make it writable for this user, or "
                    "give another one with --data-dir",
                    directory, std::strerror(errno)));
  }
  return CheckContents(directory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RocksDbStore>> RocksDbStore::Open(const std::string& directory) {
  RETURN_IF_ERROR(PrepareDirectory(directory));
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(OpenOptions(), directory, &opened);
  if (!status.ok()) return OpenError(directory, status);
  std::unique_ptr<RocksDbStore> store(new RocksDbStore(std::unique_ptr<rocksdb::DB>(opened)));

  ASSIGN_OR_RETURN(const std::optional<std::string> format, store->Get(schema::FormatKey()));
  if (!format) {
    ASSIGN_OR_RETURN(
        const CommitResult result,
        store->Commit(
            Batch().RequireAbsent(schema::FormatKey()).Put(schema::FormatKey(), schema::kFormat)));
    if (!result.committed) return absl::InternalError("the format of a new store is there already");
  } else if (*format != schema::kFormat) {
    return absl::FailedPreconditionError(
        fmt::format("data directory {}: its format is {}, this server knows {}: run the version of "
                    "warmringd that wrote it, or a newer one",
                    directory, *format, schema::kFormat));
  }
  return store;
}

RocksDbStore::RocksDbStore(std::unique_ptr<rocksdb::DB> db) : db_(std::move(db)) {}
RocksDbStore::~RocksDbStore() = default;

absl::StatusOr<CommitResult> RocksDbStore::Commit(const Batch& batch) {
  RETURN_IF_ERROR(batch.Check());
  const std::lock_guard<std::mutex> lock(commit_mutex_);
  if (failed_) {
    return absl::FailedPreconditionError(
        "the store has failed: restart the server to open it anew");
  }
  for (const Batch::Guard& guard : batch.guards()) {
    ASSIGN_OR_RETURN(std::optional<std::string> actual, Get(guard.key));
    if (actual != guard.value) return CommitResult{false, guard.key, std::move(actual)};
  }
  if (batch.changes().empty()) return CommitResult{};
  rocksdb::WriteBatch write;
  for (const Batch::Change& change : batch.changes()) {
    if (change.value) {
      write.Put(change.key, *change.value);
    } else {
      write.Delete(change.key);
    }
  }
  absl::Status failpoint = WARMRING_FP_STATUS("store.write");
  if (failpoint.ok()) {
    rocksdb::WriteOptions options;
    options.sync = true;
    const rocksdb::Status status = db_->Write(options, &write);
    if (!status.ok()) failpoint = absl::UnknownError(status.ToString());
  }
  // The other half of "unknown": it is written, and the caller is told that it may not be.
  if (failpoint.ok()) failpoint = WARMRING_FP_STATUS("store.written");
  if (!failpoint.ok()) {
    failed_ = true;
    return absl::UnknownError(
        fmt::format("a write to the store failed and may still exist ({}): the disk may be full or "
                    "failing",
                    std::string(failpoint.message())));
  }
  return CommitResult{};
}

absl::StatusOr<std::optional<std::string>> RocksDbStore::Get(std::string_view key) {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) {
    return absl::UnavailableError(
        fmt::format("store: cannot read {} ({})", key, status.ToString()));
  }
  return std::optional<std::string>(std::move(value));
}

absl::StatusOr<std::vector<KeyValue>> RocksDbStore::Scan(std::string_view begin,
                                                         std::string_view end, size_t limit) {
  const rocksdb::Slice upper = ToSlice(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options));
  std::vector<KeyValue> result;
  for (at->Seek(ToSlice(begin)); at->Valid() && result.size() < limit; at->Next()) {
    result.push_back({at->key().ToString(), at->value().ToString()});
  }
  if (!at->status().ok()) {
    return absl::UnavailableError(
        fmt::format("store: cannot read after {} ({})", begin, at->status().ToString()));
  }
  return result;
}

}  // namespace warmring
