#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace warmring::client_testing {

// A server that a test plays: it sees each stream that a driver opens, what was sent up, and says
// what comes down. `Base` is the interface of one stream. Thread-safe.
template <typename Base, typename Up, typename Down>
class ScriptedServer {
 public:
  // What a stream of the driver shares with the test.
  struct StreamState {
    std::mutex mutex;
    std::condition_variable changed;
    std::string endpoint;
    bool refuse = false;
    bool ended = false;
    bool cancelled = false;
    absl::Status why = absl::OkStatus();
    std::deque<Down> down;
    std::vector<Up> up;
  };
  using Stream = std::shared_ptr<StreamState>;

  // The next streams fail to connect.
  void Refuse(bool refuse) {
    const std::lock_guard<std::mutex> lock(mutex_);
    refuse_ = refuse;
  }
  size_t Opened() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_.size();
  }
  // The newest stream, or null.
  Stream Latest() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_.empty() ? nullptr : streams_.back();
  }
  std::vector<std::string> Endpoints() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> endpoints;
    for (const Stream& stream : streams_) endpoints.push_back(stream->endpoint);
    return endpoints;
  }

  static void Send(const Stream& stream, Down message) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->down.push_back(std::move(message));
    stream->changed.notify_all();
  }
  static void End(const Stream& stream, absl::Status why) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->ended = true;
    stream->why = std::move(why);
    stream->changed.notify_all();
  }
  static std::vector<Up> Sent(const Stream& stream) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    return stream->up;
  }

  // The driver opens one.
  Stream NewStream(const std::string& endpoint) {
    auto state = std::make_shared<StreamState>();
    state->endpoint = endpoint;
    const std::lock_guard<std::mutex> lock(mutex_);
    state->refuse = refuse_;
    streams_.push_back(state);
    return state;
  }

  class StreamImpl : public Base {
   public:
    explicit StreamImpl(Stream state) : state_(std::move(state)) {}
    bool Start() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      return !state_->refuse;
    }
    bool Write(const Up& request) override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (state_->ended || state_->cancelled) return false;
      state_->up.push_back(request);
      return true;
    }
    std::optional<Down> Read() override {
      std::unique_lock<std::mutex> lock(state_->mutex);
      state_->changed.wait(
          lock, [this] { return !state_->down.empty() || state_->ended || state_->cancelled; });
      if (state_->cancelled || state_->down.empty()) return std::nullopt;
      Down message = std::move(state_->down.front());
      state_->down.pop_front();
      return message;
    }
    absl::Status Finish() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (state_->refuse) return absl::UnavailableError("connection refused");
      return state_->cancelled ? absl::CancelledError("cancelled") : state_->why;
    }
    void Cancel() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      state_->cancelled = true;
      state_->changed.notify_all();
    }

   private:
    const Stream state_;
  };

 private:
  mutable std::mutex mutex_;
  bool refuse_ = false;          // guarded by mutex_
  std::vector<Stream> streams_;  // guarded by mutex_
};

}  // namespace warmring::client_testing
