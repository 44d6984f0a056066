#pragma once

#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace warmring {

// Says in the log when something stops working, when the reason changes, and when it works again;
// not each time it is tried. Thread-safe.
class Notice {
 public:
  explicit Notice(std::string subject) : subject_(std::move(subject)) {}

  // True if it logged.
  bool Report(const absl::Status& status);

 private:
  const std::string subject_;
  std::mutex mutex_;
  absl::Status last_;  // guarded by mutex_
};

}  // namespace warmring
