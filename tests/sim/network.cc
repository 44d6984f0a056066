#include "tests/sim/network.h"

#include <algorithm>

namespace warmring::sim {

void Process::Die() {
  alive_ = false;
  for (const std::weak_ptr<Stream>& weak : std::exchange(streams_, {})) {
    if (const auto stream = weak.lock()) stream->OnDeath(this);
  }
}

void Network::HealAll() {
  for (auto& row : cut_) row.fill(false);
}

Nanos Network::Delay() {
  if (random_->Chance(weather_.slow)) return random_->Between(0, weather_.slow_max);
  return random_->Between(weather_.delay_min, weather_.delay_max);
}

std::shared_ptr<Stream> Stream::Open(Network* network, const std::shared_ptr<Process>& from,
                                     const std::shared_ptr<Process>& to, bool may_be_soup) {
  auto stream = std::make_shared<Stream>();
  stream->network_ = network;
  stream->may_be_soup_ = may_be_soup;
  stream->ends_[0].process = from;
  stream->ends_[0].site = from->site();
  stream->ends_[1].process = to;
  stream->ends_[1].site = to->site();
  from->Adopt(stream);
  to->Adopt(stream);
  return stream;
}

void Stream::Send(size_t from, Work deliver, Nanos extra) {
  const size_t to = 1 - from;
  if (!ends_[from].open || muted_ || ends_[from].has_lost) return;
  Random& random = network_->random();
  const Network::Weather& weather = network_->weather();
  const bool soup = may_be_soup_ && weather.soup;
  if (network_->IsCut(ends_[from].site, ends_[to].site)) {
    // A silence is noticed by whoever waits for an answer, or by keep-alives. Until then nothing
    // that comes later may pass what was lost, also when the network has healed.
    ends_[from].has_lost = !soup;
    if (!soup) Break(random.Chance(300) ? 20 * kMilli : 20 * kSecond);
    return;
  }
  if (soup) {
    if (random.Chance(weather.lose)) return;
    DeliverAfter(to, network_->Delay() + extra, deliver);
    if (random.Chance(weather.repeat)) DeliverAfter(to, network_->Delay() * 3, deliver);
    return;
  }
  const Nanos now = network_->scheduler().now();
  ends_[to].last = std::max(ends_[to].last, now + network_->Delay() + extra);
  DeliverAfter(to, ends_[to].last - now, deliver);
}

void Stream::DeliverAfter(size_t to, Nanos delay, const Work& deliver) {
  const auto process = ends_[to].process.lock();
  if (process == nullptr) return;
  process->After(delay, [self = shared_from_this(), to, deliver] {
    if (self->ends_[to].open && !self->muted_) deliver();
  });
}

void Stream::EndAt(size_t end, Nanos delay) {
  const auto process = ends_[end].process.lock();
  if (process == nullptr || !process->alive()) return;
  process->After(delay, [self = shared_from_this(), end] {
    End& at = self->ends_[end];
    if (!at.open) return;
    at.open = false;
    if (const OnEnd on_end = std::exchange(at.on_end, nullptr)) on_end();
  });
}

void Stream::Close(size_t end) {
  if (!ends_[end].open) return;
  ends_[end].open = false;
  ends_[end].on_end = nullptr;
  const bool silent = muted_ || network_->IsCut(ends_[end].site, ends_[1 - end].site);
  EndAt(1 - end, silent ? network_->random().Between(0, 20 * kSecond) : network_->Delay());
}

void Stream::Break(Nanos within) {
  if (breaking_) return;
  breaking_ = true;
  EndAt(0, network_->random().Between(0, within));
  EndAt(1, network_->random().Between(0, within));
}

void Stream::HalfClose(size_t end) {
  if (std::exchange(breaking_, true)) return;
  muted_ = true;
  EndAt(end, kMilli);
  EndAt(1 - end, network_->random().Between(10 * kSecond, 30 * kSecond));
}

void Stream::OnDeath(const Process* process) {
  for (const size_t end : {size_t{0}, size_t{1}}) {
    if (ends_[end].process.lock().get() == process) Close(end);
  }
}

}  // namespace warmring::sim
