#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "tests/sim/engine.h"
#include "tests/sim/network.h"

namespace warmring::sim {

class Agent;

// What a recipient's agent asks of a donor's, as in agent/transfer/pull.h.
struct Order {
  MigrationId migration;
  bool dirty = false;
  HashRangeSet ranges;
  NodeId recipient;
};

// What travels on such a stream.
struct Parcel {
  enum class Kind : uint8_t { kItems, kPosition, kScanEnd, kSuspect, kDirtyEnd };
  Kind kind = Kind::kItems;
  std::vector<Item> items;
  LogPlace place;         // kPosition, kDirtyEnd
  bool complete = false;  // kDirtyEnd
};

// The donor's end of one stream: agent/transfer/donor_stream.cc without its threads.
class Donor : public std::enable_shared_from_this<Donor> {
 public:
  Donor(Agent* agent, Order order, std::shared_ptr<Stream> stream,
        std::function<void(const Parcel&)> deliver);
  void Start();
  void Acknowledge(uint64_t position) { acknowledged_ = std::max(acknowledged_, position); }
  void Nudge();
  void HangUp() { stream_->HalfClose(1); }
  void Stop();
  bool stopped() const { return stopped_; }

 private:
  void StartCopy();
  void StartDirty(const LogPlace& fence);
  void Loop();
  void PumpChanges(std::function<void()> then);
  void ScanStep();
  void SendKeys(std::vector<std::string> keys, bool scan, std::function<void()> then);
  void Send(Parcel parcel);
  void Fail();

  Agent* const agent_;
  const Order order_;
  const std::shared_ptr<Stream> stream_;
  const std::function<void(const Parcel&)> deliver_;
  Id128 track_;
  LogPlace cursor_;
  uint64_t acknowledged_ = 0;
  std::string scan_cursor_;
  bool scan_done_ = false;
  bool cursor_sent_ = false;
  bool pumping_ = false;
  bool nudged_ = false;
  bool stopped_ = false;
};

}  // namespace warmring::sim
