// The embedded store keeps the contract, keeps what it acknowledged when its process is killed, and
// says what to do when it cannot open.

#include "server/store/rocksdb/rocksdb_store.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/executor/failpoint.h"
#include "server/store/store_conformance_testing.h"
#include "tests/support/temp_dir.h"

namespace warmring {
namespace {

namespace fs = std::filesystem;
using support::TempDir;

// The directory goes when the store does.
class TemporaryStore final : public Store {
 public:
  TemporaryStore(std::unique_ptr<TempDir> dir, std::unique_ptr<Store> store)
      : dir_(std::move(dir)), store_(std::move(store)) {}
  absl::StatusOr<CommitResult> Commit(const Batch& batch) override { return store_->Commit(batch); }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view key) override {
    return store_->Get(key);
  }
  absl::StatusOr<std::vector<KeyValue>> Scan(std::string_view begin, std::string_view end,
                                             size_t limit) override {
    return store_->Scan(begin, end, limit);
  }

 private:
  std::unique_ptr<TempDir> dir_;
  std::unique_ptr<Store> store_;
};

std::unique_ptr<Store> MakeTemporaryStore() {
  auto dir = TempDir::Create("rocksdb-store");
  if (!dir.ok()) return nullptr;
  auto store = RocksDbStore::Open((*dir)->File("data"));
  if (!store.ok()) return nullptr;
  return std::make_unique<TemporaryStore>(std::move(*dir), std::move(*store));
}

INSTANTIATE_TEST_SUITE_P(RocksDb, StoreConformanceTest, ::testing::Values(&MakeTemporaryStore));

class RocksDbStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Create("rocksdb-store"));
    path_ = dir_->File("data");
  }
  std::unique_ptr<RocksDbStore> MustOpen() {
    auto store = RocksDbStore::Open(path_);
    EXPECT_OK(store);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::string FileWith(const std::string& end) {
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().string();
      if (name.size() > end.size() && name.substr(name.size() - end.size()) == end) return name;
    }
    return "";
  }

  std::unique_ptr<TempDir> dir_;
  std::string path_;
};

TEST_F(RocksDbStoreTest, KeepsWhatItAcknowledgedWhenItsProcessIsKilled) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    // No cleaning up, as after kill -9: only what was synced is left.
    const auto store = RocksDbStore::Open(path_);
    int acknowledged = 0;
    for (int i = 0; i < 50; ++i) {
      const auto result = (*store)->Commit(
          Batch().Put("k" + std::to_string(i), "v").Put("last", std::to_string(i)));
      if (result.ok() && result->committed) acknowledged = i + 1;
    }
    const ssize_t written = write(pipe_fds[1], &acknowledged, sizeof(acknowledged));
    _exit(written == sizeof(acknowledged) ? 137 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 137);
  int acknowledged = 0;
  ASSERT_EQ(read(pipe_fds[0], &acknowledged, sizeof(acknowledged)),
            static_cast<ssize_t>(sizeof(acknowledged)));
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  EXPECT_EQ(acknowledged, 50);

  const auto store = MustOpen();
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto last, store->Get("last"));
  EXPECT_EQ(last, "49");
  ASSERT_OK_AND_ASSIGN(const auto keys, store->Scan("k", "l", 100));
  EXPECT_EQ(keys.size(), 50u);
}

TEST_F(RocksDbStoreTest, ATornTailIsCutAndNothingBeforeIt) {
  MustOpen()->Commit(Batch().Put("a", "1")).IgnoreError();
  {
    const auto store = MustOpen();
    ASSERT_OK(store->Commit(Batch().Put("b", "2")));
    ASSERT_OK(store->Commit(Batch().Put("c", std::string(1000, 'c'))));
  }
  // As if the machine had died in the middle of the last record.
  const std::string log = FileWith(".log");
  ASSERT_FALSE(log.empty());
  fs::resize_file(log, fs::file_size(log) - 500);
  const auto store = MustOpen();
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto b, store->Get("b"));
  EXPECT_EQ(b, "2");
  ASSERT_OK_AND_ASSIGN(const auto c, store->Get("c"));
  EXPECT_EQ(c, std::nullopt);
}

TEST_F(RocksDbStoreTest, DamageIsRefusedWithTheWayOut) {
  MustOpen()->Commit(Batch().Put("a", "1")).IgnoreError();
  std::ofstream(FileWith("CURRENT"), std::ios::trunc) << "MANIFEST-999999\n";
  const auto store = RocksDbStore::Open(path_);
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, "restore the directory from a copy"));
  EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, "ldb repair --db=" + path_));
  fs::remove(path_ + "/CURRENT");
  EXPECT_THAT(RocksDbStore::Open(path_),
              StatusIs(absl::StatusCode::kDataLoss, "CURRENT is missing"));
}

TEST_F(RocksDbStoreTest, DamageInTheMiddleOfTheLogIsRefused) {
  {
    const auto store = MustOpen();
    for (int i = 0; i < 100; ++i) {
      ASSERT_OK(store->Commit(Batch().Put("k" + std::to_string(i), std::string(1000, 'x'))));
    }
  }
  const std::string log = FileWith(".log");
  std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20'000);
  file << std::string(64, '\x5a');
  file.close();
  EXPECT_THAT(RocksDbStore::Open(path_), StatusIs(absl::StatusCode::kDataLoss, "damaged"));
}

TEST_F(RocksDbStoreTest, NamesTheProcessThatHoldsIt) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto store = RocksDbStore::Open(path_);
    const char ok = store.ok() ? 'y' : 'n';
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char ok = 'n';
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  EXPECT_THAT(RocksDbStore::Open(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "in use by another process (process " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_NE(MustOpen(), nullptr);
}

TEST_F(RocksDbStoreTest, RefusesANewerFormatAndForeignDirectories) {
  ASSERT_OK(MustOpen()->Commit(Batch().Put("meta/format", "2")));
  EXPECT_THAT(RocksDbStore::Open(path_),
              StatusIs(absl::StatusCode::kFailedPrecondition, "its format is 2"));
  const std::string other = dir_->File("other");
  fs::create_directory(other);
  std::ofstream(other + "/notes.txt") << "mine";
  EXPECT_THAT(RocksDbStore::Open(other),
              StatusIs(absl::StatusCode::kFailedPrecondition, "it holds notes.txt"));
  const std::string file = dir_->File("file");
  std::ofstream(file) << "x";
  EXPECT_THAT(RocksDbStore::Open(file + "/data"),
              StatusIs(absl::StatusCode::kPermissionDenied, "cannot be made"));
}

#ifdef WARMRING_FAILPOINTS
TEST_F(RocksDbStoreTest, AFailedWriteEndsTheStoreAndMayExist) {
  for (const bool written : {false, true}) {
    auto store = MustOpen();
    ASSERT_OK(failpoint::Configure(written ? "store.written=error" : "store.write=error"));
    const std::string key = written ? "b" : "a";
    EXPECT_THAT(store->Commit(Batch().Put(key, "1")),
                StatusIs(absl::StatusCode::kUnknown, "may still exist"));
    EXPECT_THAT(store->Commit(Batch().Put("c", "1")),
                StatusIs(absl::StatusCode::kFailedPrecondition, "restart"));
    ASSERT_OK(failpoint::Configure(""));
    store.reset();
    store = MustOpen();
    ASSERT_OK_AND_ASSIGN(const auto value, store->Get(key));
    EXPECT_EQ(value.has_value(), written);
    ASSERT_OK_AND_ASSIGN(const auto later, store->Get("c"));
    EXPECT_EQ(later, std::nullopt);
  }
}
#endif

}  // namespace
}  // namespace warmring
