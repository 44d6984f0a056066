#include "client/base/warning.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace warmring {
namespace {

struct Sink {
  std::mutex mutex;
  WarningSink sink;  // guarded by mutex
};

// Never destroyed: a thread may warn while the process ends.
Sink& GlobalSink() {
  static Sink& sink = *new Sink;
  return sink;
}

}  // namespace

void Warn(std::string_view message) {
  Sink& global = GlobalSink();
  const std::lock_guard<std::mutex> lock(global.mutex);
  if (global.sink != nullptr) {
    global.sink(message);
    return;
  }
  std::fprintf(stderr, "warmring: %.*s\n", static_cast<int>(message.size()), message.data());
}

void SetWarningSink(WarningSink sink) {
  Sink& global = GlobalSink();
  const std::lock_guard<std::mutex> lock(global.mutex);
  global.sink = std::move(sink);
}

}  // namespace warmring
