#include "tests/e2e/demo/load.h"

#include <chrono>
#include <random>

#include <fmt/format.h>

#include "tests/e2e/demo/origin.h"

namespace warmring::demo {
namespace {

constexpr size_t kWriteLocks = 4096;
// A thread that is later than this drops the arrears: an open loop must not become a burst.
constexpr auto kMaxArrears = std::chrono::seconds(1);

}  // namespace

Load::Load(const LoadOptions& options, CacheClient* client)
    : options_(options),
      client_(client),
      zipf_(options.keys, options.zipf_exponent),
      completed_(options.keys),
      write_locks_(kWriteLocks) {}

void Load::Start() {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back(
        [this, i](std::stop_token stop) { Work(static_cast<uint64_t>(i) + 1, stop); });
  }
}

void Load::Stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void Load::Work(uint64_t seed, std::stop_token stop) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(options_.operations_per_second / options_.threads);
  std::uniform_real_distribution<double> unit(0, 1);
  auto next = std::chrono::steady_clock::now();
  bool keep = false;
  while (!stop.stop_requested()) {
    next += std::chrono::nanoseconds(static_cast<int64_t>(gap(random) * 1e9));
    const auto now = std::chrono::steady_clock::now();
    if (next + kMaxArrears < now) next = now;
    std::this_thread::sleep_until(next);
    const uint32_t rank = zipf_.Draw(random);
    if (unit(random) < options_.write_share) {
      keep = !keep;
      Write(rank, keep);
    } else {
      Read(rank);
    }
  }
}

void Load::NoteError(const absl::Status& status) {
  counts_.errors.fetch_add(1);
  std::lock_guard lock(message_mutex_);
  if (first_error_.empty()) first_error_ = status.ToString();
}

void Load::Read(uint32_t rank) {
  const uint64_t known = completed_[rank].load(std::memory_order_acquire);
  const std::string key = KeyName(rank);
  const absl::StatusOr<std::string> value = client_->Read(key);
  counts_.reads.fetch_add(1, std::memory_order_relaxed);
  if (!value.ok()) return NoteError(value.status());
  const absl::StatusOr<uint64_t> sequence = SequenceOf(*value);
  if (!sequence.ok()) return NoteError(sequence.status());
  if (*sequence >= known) return;
  counts_.stale_reads.fetch_add(1);
  std::lock_guard lock(message_mutex_);
  if (first_stale_.empty()) {
    first_stale_ =
        fmt::format("{}: read sequence {}, but {} had been written before", key, *sequence, known);
  }
}

void Load::Write(uint32_t rank, bool keep) {
  std::lock_guard lock(write_locks_[rank % kWriteLocks]);
  const uint64_t sequence = completed_[rank].load(std::memory_order_relaxed) + 1;
  const absl::Status status = client_->Write(KeyName(rank), MakeValue(sequence), keep);
  counts_.writes.fetch_add(1, std::memory_order_relaxed);
  if (!status.ok()) NoteError(status);
  // A write that failed may have reached the origin or not: readers may see either value, and the
  // next writer of the key takes the same sequence again.
  if (status.ok()) completed_[rank].store(sequence, std::memory_order_release);
}

std::string Load::FirstError() const {
  std::lock_guard lock(message_mutex_);
  return first_error_;
}

std::string Load::FirstStale() const {
  std::lock_guard lock(message_mutex_);
  return first_stale_;
}

}  // namespace warmring::demo
