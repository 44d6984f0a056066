#include "tests/crash/traffic.h"

#include "fmt/format.h"
#include "tests/support/wait.h"

namespace warmring::crash {

Traffic::Traffic(const TrafficOptions& options, Ledger* ledger, Cache* cache)
    : options_(options), ledger_(ledger), cache_(cache) {
  const auto writers = static_cast<size_t>(options_.writers);
  for (size_t i = 0; i < writers; ++i) {
    const auto write_own_key = [this, i, writers](std::mt19937_64& random) {
      std::uniform_int_distribution<size_t> turn(0, (ledger_->Size() - 1 - i) / writers);
      // A failure is noted, and the next write of the key heals it.
      Write(i + writers * turn(random)).IgnoreError();
    };
    threads_.emplace_back([this, i, write_own_key](const std::stop_token& stop) {
      Work(write_own_key, 2 * i + 1, stop);
    });
  }
  for (uint64_t i = 0; i < static_cast<uint64_t>(options_.readers); ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) {
      Work([this](std::mt19937_64& random) { ReadSomething(random); }, 2 * i + 2, stop);
    });
  }
}

Traffic::~Traffic() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void Traffic::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void Traffic::Resume() {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

void Traffic::Work(const std::function<void(std::mt19937_64&)>& step, uint64_t seed,
                   const std::stop_token& stop) {
  std::mt19937_64 random(seed);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(options_.pace), [] { return false; });
    changed_.wait(lock, stop, [this] { return !paused_; });
    if (stop.stop_requested()) return;
    ++busy_;
    lock.unlock();
    step(random);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void Traffic::ReadSomething(std::mt19937_64& random) {
  const size_t key = std::uniform_int_distribution<size_t>(0, ledger_->Size() - 1)(random);
  const uint64_t newest_completed = ledger_->NewestCompleted(key);
  const absl::StatusOr<std::string> value = cache_->Read(Ledger::KeyName(key));
  ++reads_;
  if (!value.ok()) {
    ++failed_reads_;
    NoteFailure(value.status());
    return;
  }
  const absl::Status verdict = ledger_->Judge(key, newest_completed, *value);
  if (verdict.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  first_violation_.Update(verdict);
}

absl::Status Traffic::Write(size_t key) {
  const uint64_t number = ledger_->Begin(key);
  const bool is_set = number % 2 == 0;
  const std::string name = Ledger::KeyName(key);
  const absl::Status status =
      is_set ? cache_->Set(name, ledger_->Value(key, number)) : cache_->Delete(name);
  ++writes_;
  if (status.ok()) {
    ledger_->Completed(key, number);
    return status;
  }
  ++failed_writes_;
  if (is_set) ledger_->SetUnknown(key, number);
  NoteFailure(status);
  return status;
}

absl::Status Traffic::AwaitWrites(uint64_t count, absl::Duration within) {
  const uint64_t goal = writes_ + count;
  return support::WaitFor(fmt::format("{} more writes", count), within,
                          [this, goal] { return writes_ >= goal; });
}

absl::Status Traffic::WriteEachKey(absl::Duration within) {
  for (size_t key = 0; key < ledger_->Size(); ++key) {
    const absl::Status written =
        support::WaitUntilOk(fmt::format("{} to be written", Ledger::KeyName(key)), within,
                             [this, key] { return Write(key); });
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

void Traffic::NoteFailure(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_failure_ = status;
}

absl::Status Traffic::FirstViolation() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_violation_;
}

std::string Traffic::Summary() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fmt::format("{} reads ({} failed), {} writes ({} failed), last failure: {}; {}",
                     reads_.load(), failed_reads_.load(), writes_.load(), failed_writes_.load(),
                     last_failure_.ToString(), cache_->Describe());
}

}  // namespace warmring::crash
