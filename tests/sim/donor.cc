#include "tests/sim/donor.h"

#include <utility>

#include "tests/sim/agent.h"
#include "tests/sim/world.h"

namespace warmring::sim {

Donor::Donor(Agent* agent, Order order, std::shared_ptr<Stream> stream,
             std::function<void(const Parcel&)> deliver)
    : agent_(agent),
      order_(std::move(order)),
      stream_(std::move(stream)),
      deliver_(std::move(deliver)) {}

void Donor::Send(Parcel parcel) {
  stream_->Send(1, [deliver = deliver_, parcel = std::move(parcel)] { deliver(parcel); });
}

void Donor::Fail() {
  if (stopped_) return;
  Stop();
  stream_->Close(1);
}

void Donor::Stop() {
  if (std::exchange(stopped_, true)) return;
  if (order_.dirty) return;
  agent_->Ask<absl::Status>(
      [track = track_](Engine& engine, uint64_t generation) {
        return engine.Untrack(generation, track);
      },
      [](const absl::Status&) {});
}

void Donor::Start() {
  if (order_.dirty) {
    StartDirty(*agent_->FencedAt(order_.migration, order_.ranges));
  } else {
    StartCopy();
  }
}

void Donor::StartDirty(const LogPlace& fence) {
  agent_->Ask<absl::StatusOr<Engine::Dirty>>(
      [migration = order_.migration](Engine& engine, uint64_t generation) {
        return engine.ReadDirty(generation, migration);
      },
      [self = shared_from_this(), this, fence](const absl::StatusOr<Engine::Dirty>& dirty) {
        if (stopped_) return;
        if (!dirty.ok()) return Fail();
        Parcel end;
        end.kind = Parcel::Kind::kDirtyEnd;
        end.place = fence;
        end.complete = dirty->complete;
        if (!dirty->complete) return Send(end);
        std::vector<std::string> keys;
        for (const std::string& key : dirty->keys) {
          if (order_.ranges.Contains(agent_->installed()->PointOf(key))) keys.push_back(key);
        }
        SendKeys(std::move(keys), false, [self, this, end] { Send(end); });
      });
}

void Donor::StartCopy() {
  track_ = agent_->world().FreshIncarnation();
  agent_->Ask<absl::StatusOr<LogPlace>>(
      [track = track_, ranges = order_.ranges](Engine& engine, uint64_t generation) {
        return engine.Track(generation, track, ranges);
      },
      [self = shared_from_this(), this](const absl::StatusOr<LogPlace>& place) {
        if (stopped_) return;
        if (!place.ok()) return Fail();
        cursor_ = *place;
        acknowledged_ = place->position;
        Parcel first;
        first.kind = Parcel::Kind::kPosition;
        first.place = cursor_;
        Send(first);
        cursor_sent_ = true;
        Loop();
      });
}

void Donor::Nudge() {
  nudged_ = true;
  if (!stopped_ && !order_.dirty && scan_done_ && !pumping_) Loop();
}

void Donor::Loop() {
  if (stopped_ || pumping_) return;
  pumping_ = true;
  nudged_ = false;
  PumpChanges([self = shared_from_this(), this] {
    pumping_ = false;
    if (!scan_done_) return ScanStep();
    if (nudged_) return Loop();
    agent_->After(agent_->world().random().Between(10 * kMilli, 200 * kMilli),
                  [self, this] { Loop(); });
  });
}

void Donor::PumpChanges(std::function<void()> then) {
  agent_->Ask<absl::StatusOr<Engine::Changes>>(
      [track = track_, cursor = cursor_, ack = acknowledged_](Engine& engine, uint64_t generation) {
        return engine.ReadChanges(generation, track, cursor, ack);
      },
      [self = shared_from_this(), this,
       then = std::move(then)](const absl::StatusOr<Engine::Changes>& changes) {
        if (stopped_) return;
        if (absl::IsDataLoss(changes.status())) {
          Parcel suspect;
          suspect.kind = Parcel::Kind::kSuspect;
          return Send(suspect);
        }
        if (!changes.ok()) return Fail();
        SendKeys(changes->keys, false, [self, this, then, next = changes->next] {
          cursor_sent_ = cursor_sent_ && next == cursor_.position;
          const bool more = next != cursor_.position;
          cursor_.position = next;
          if (!cursor_sent_) {
            Parcel position;
            position.kind = Parcel::Kind::kPosition;
            position.place = cursor_;
            Send(position);
            cursor_sent_ = true;
          }
          if (more) return PumpChanges(then);
          then();
        });
      });
}

void Donor::ScanStep() {
  pumping_ = true;
  agent_->Ask<absl::StatusOr<Engine::Page>>(
      [track = track_, cursor = scan_cursor_](Engine& engine, uint64_t generation) {
        return engine.Scan(generation, track, cursor);
      },
      [self = shared_from_this(), this](const absl::StatusOr<Engine::Page>& page) {
        if (stopped_) return;
        if (!page.ok()) return Fail();
        scan_cursor_ = page->next;
        SendKeys(page->keys, true, [self, this, last = page->next.empty()] {
          pumping_ = false;
          if (last) {
            scan_done_ = true;
            Parcel end;
            end.kind = Parcel::Kind::kScanEnd;
            Send(end);
            cursor_sent_ = false;
          }
          Loop();
        });
      });
}

void Donor::SendKeys(std::vector<std::string> keys, bool scan, std::function<void()> then) {
  if (keys.empty()) return then();
  agent_->Ask<absl::StatusOr<std::vector<Item>>>(
      [keys = std::move(keys)](Engine& engine, uint64_t generation) {
        return engine.Dump(generation, keys);
      },
      [self = shared_from_this(), this, scan,
       then = std::move(then)](const absl::StatusOr<std::vector<Item>>& items) {
        if (stopped_) return;
        if (!items.ok()) return Fail();
        Parcel parcel;
        for (const Item& item : *items) {
          if (!scan || item.value) parcel.items.push_back(item);
        }
        if (!parcel.items.empty()) Send(std::move(parcel));
        then();
      });
}

}  // namespace warmring::sim
