#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/process.h"
#include "tests/sim/random.h"

namespace warmring::sim {

// How messages fare. Not thread-safe.
class Network {
 public:
  static constexpr Site kMaxSites = 16;

  struct Weather {
    Nanos delay_min = 100 * kMicro;
    Nanos delay_max = 2 * kMilli;
    uint32_t slow = 0;  // per mille of messages that take up to slow_max
    Nanos slow_max = 4 * kSecond;
    // Of a soup, where each message fares alone, per mille: in the others a message that is lost
    // ends its stream.
    bool soup = false;
    uint32_t lose = 0;
    uint32_t repeat = 0;
  };

  Network(Scheduler* scheduler, Random* random) : scheduler_(scheduler), random_(random) {}

  Weather& weather() { return weather_; }
  Random& random() { return *random_; }
  Scheduler& scheduler() { return *scheduler_; }

  void Cut(Site from, Site to, bool cut) { cut_[from][to] = cut; }
  bool IsCut(Site from, Site to) const { return cut_[from][to]; }
  void HealAll();

  // Of one message.
  Nanos Delay();

 private:
  Scheduler* const scheduler_;
  Random* const random_;
  Weather weather_;
  std::array<std::array<bool, kMaxSites>, kMaxSites> cut_{};
};

// A connection between two processes: end 0 opened it. In order, unless the weather is a soup and
// the stream may be one. Ends with an error at each end, at different times.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using OnEnd = std::function<void()>;

  static std::shared_ptr<Stream> Open(Network* network, const std::shared_ptr<Process>& from,
                                      const std::shared_ptr<Process>& to, bool may_be_soup);

  // Called once, when that end learns that the stream is over.
  void SetOnEnd(size_t end, OnEnd on_end) { ends_[end].on_end = std::move(on_end); }

  // `deliver` runs at the other end, if the message gets there and that end has not closed.
  // `extra` is added to its way.
  void Send(size_t from, Work deliver, Nanos extra = 0);
  // This end is done with it; the other learns of it.
  void Close(size_t end);
  // One end is told soon that the stream is over, the other one much later.
  void HalfClose(size_t end);
  // The connection is lost.
  void Break(Nanos within);
  // From now on nothing passes, and nobody is told yet.
  void Mute() { muted_ = true; }
  bool IsOpen(size_t end) const { return ends_[end].open; }
  void OnDeath(const Process* process);

 private:
  struct End {
    std::weak_ptr<Process> process;
    Site site = 0;
    bool open = true;
    bool has_lost = false;  // something that it sent
    Nanos last = 0;         // arrival of the newest message to this end
    OnEnd on_end;
  };
  void EndAt(size_t end, Nanos delay);
  void DeliverAfter(size_t to, Nanos delay, const Work& deliver);

  Network* network_ = nullptr;
  std::array<End, 2> ends_;
  bool may_be_soup_ = false;
  bool muted_ = false;
  bool breaking_ = false;
};

}  // namespace warmring::sim
