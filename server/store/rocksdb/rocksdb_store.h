#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "server/store/store.h"

namespace rocksdb {
class DB;
}

namespace warmring {

// The embedded store: one RocksDB with one column family, every write synced before it is answered.
// One process at a time (RocksDB's LOCK file). Any thread.
//
// A failed write may still exist after the next opening, and RocksDB does not recover from it in
// place: the first one ends the life of this object (Unknown, then FailedPrecondition), and the
// process opens it anew.
class RocksDbStore final : public Store {
 public:
  // Opens the store in `directory`, which is made if it does not exist. Errors, each with the way
  // out:
  //   FailedPrecondition  another process has it open (named by its id); or it is of a newer
  //                       format; or the directory holds something else
  //   PermissionDenied    the directory cannot be made or written
  //   DataLoss            it is damaged: RocksDB would have to roll back what was acknowledged
  //   Unavailable         anything else that RocksDB reports
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(const std::string& directory);
  ~RocksDbStore() override;

  absl::StatusOr<CommitResult> Commit(const Batch& batch) override;
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key) override;
  absl::StatusOr<std::vector<KeyValue>> Scan(std::string_view begin, std::string_view end,
                                             size_t limit) override;

 private:
  explicit RocksDbStore(std::unique_ptr<rocksdb::DB> db);

  const std::unique_ptr<rocksdb::DB> db_;
  std::mutex commit_mutex_;  // between reading the guards and writing
  std::atomic<bool> failed_ = false;
};

}  // namespace warmring
