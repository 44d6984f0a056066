#include "agent/notice.h"

#include "spdlog/spdlog.h"

namespace warmring {

bool Notice::Report(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (status == last_) return false;
  last_ = status;
  if (status.ok()) {
    spdlog::info("{}: works again", subject_);
  } else {
    spdlog::warn("{}: {}", subject_, std::string(status.message()));
  }
  return true;
}

}  // namespace warmring
