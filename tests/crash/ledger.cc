#include "tests/crash/ledger.h"

#include <charconv>

#include "fmt/format.h"

namespace warmring::crash {
namespace {

constexpr std::string_view kPrefix = "key-";
// Makes a value worth a transfer.
constexpr size_t kPadding = 100;

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string Ledger::KeyName(size_t key) { return fmt::format("{}{}", kPrefix, key); }

std::optional<std::string> Ledger::Origin(std::string_view name) const {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::optional<uint64_t> key = Number(name.substr(kPrefix.size()));
  if (!key.has_value() || *key >= keys_.size()) return std::nullopt;
  return Value(*key, keys_[*key].begun.load());
}

uint64_t Ledger::Begin(size_t key) { return keys_[key].begun.fetch_add(1) + 1; }

std::string Ledger::Value(size_t key, uint64_t number) const {
  return fmt::format("{}:{}:{}", KeyName(key), number, std::string(kPadding, '.'));
}

void Ledger::Completed(size_t key, uint64_t number) { keys_[key].completed.store(number); }

void Ledger::SetUnknown(size_t key, uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  unknown_.emplace(key, number);
}

uint64_t Ledger::NewestCompleted(size_t key) const { return keys_[key].completed.load(); }

absl::Status Ledger::Judge(size_t key, uint64_t newest_completed, std::string_view value) const {
  const size_t first = value.find(':');
  const size_t second = value.find(':', first + 1);
  std::optional<uint64_t> number;
  if (first != std::string_view::npos && second != std::string_view::npos) {
    number = Number(value.substr(first + 1, second - first - 1));
  }
  if (!number.has_value() || value.substr(0, first) != KeyName(key) ||
      *number > keys_[key].begun.load()) {
    return absl::DataLossError(
        fmt::format("{} has a value that was never written: '{}'", KeyName(key), value));
  }
  if (*number >= newest_completed) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unknown_.contains({key, *number})) return absl::OkStatus();
  return absl::DataLossError(fmt::format("{} has value {} although the write of {} was complete",
                                         KeyName(key), *number, newest_completed));
}

}  // namespace warmring::crash
