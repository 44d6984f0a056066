#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/sync/watch_transport.h"

namespace warmring::client_testing {

// A watch server that a test plays: it sees each stream that the driver opens,
// what was sent up, and says what comes down. Thread-safe.
class ScriptedWatch {
public:
  // What the driver's streams share with the test.
  struct StreamState {
    std::mutex mutex;
    std::condition_variable changed;
    std::string endpoint;
    bool refuse = false;
    bool ended = false;
    absl::Status why = absl::OkStatus();
    std::deque<WatchMessage> down;
    std::vector<WatchRequest> up;
    bool cancelled = false;
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
    for (const Stream &stream : streams_)
      endpoints.push_back(stream->endpoint);
    return endpoints;
  }

  static void Send(const Stream &stream, WatchMessage message) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->down.push_back(std::move(message));
    stream->changed.notify_all();
  }
  static void End(const Stream &stream, absl::Status why) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->ended = true;
    stream->why = std::move(why);
    stream->changed.notify_all();
  }
  static std::vector<WatchRequest> Sent(const Stream &stream) {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    return stream->up;
  }

  std::unique_ptr<WatchTransport> Transport() {
    return std::make_unique<TransportImpl>(this);
  }

private:
  class StreamImpl final : public WatchStream {
  public:
    explicit StreamImpl(Stream state) : state_(std::move(state)) {}
    bool Start() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      return !state_->refuse;
    }
    bool Write(const WatchRequest &request) override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (state_->ended || state_->cancelled)
        return false;
      state_->up.push_back(request);
      return true;
    }
    std::optional<WatchMessage> Read() override {
      std::unique_lock<std::mutex> lock(state_->mutex);
      state_->changed.wait(lock, [this] {
        return !state_->down.empty() || state_->ended || state_->cancelled;
      });
      if (state_->cancelled || state_->down.empty())
        return std::nullopt;
      WatchMessage message = std::move(state_->down.front());
      state_->down.pop_front();
      return message;
    }
    absl::Status Finish() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      if (state_->refuse)
        return absl::UnavailableError("connection refused");
      return state_->cancelled ? absl::CancelledError("cancelled")
                               : state_->why;
    }
    void Cancel() override {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      state_->cancelled = true;
      state_->changed.notify_all();
    }

  private:
    const Stream state_;
  };

  class TransportImpl final : public WatchTransport {
  public:
    explicit TransportImpl(ScriptedWatch *owner) : owner_(owner) {}
    std::unique_ptr<WatchStream> Open(const std::string &endpoint) override {
      auto state = std::make_shared<StreamState>();
      state->endpoint = endpoint;
      const std::lock_guard<std::mutex> lock(owner_->mutex_);
      state->refuse = owner_->refuse_;
      owner_->streams_.push_back(state);
      return std::make_unique<StreamImpl>(state);
    }

  private:
    ScriptedWatch *const owner_;
  };

  mutable std::mutex mutex_;
  bool refuse_ = false;         // guarded by mutex_
  std::vector<Stream> streams_; // guarded by mutex_
};

} // namespace warmring::client_testing
