#include "client/loader/flight_table.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace warmring {

std::optional<FlightTable::Result> FlightTable::Flight::Wait(Instant deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!result_) {
    const absl::Duration left = deadline - BootNow();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    landed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Minutes(1))));
  }
  return result_;
}

FlightTable::Shard& FlightTable::ShardOf(std::string_view key) {
  return shards_[std::hash<std::string_view>{}(key) % shards_.size()];
}

FlightTable::Ticket FlightTable::Join(std::string_view key, const Miss& miss) {
  Shard& shard = ShardOf(key);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  std::shared_ptr<Flight>& present = shard.flights[std::string(key)];
  if (present != nullptr && present->miss_.version == miss.version &&
      present->miss_.history_tag == miss.history_tag &&
      (!present->begun_ || (!miss.token.empty() && present->miss_.token == miss.token))) {
    return {present, false};
  }
  present = std::make_shared<Flight>();
  present->miss_ = miss;
  return {present, true};
}

void FlightTable::Begin(std::string_view key, const std::shared_ptr<Flight>& flight) {
  const std::lock_guard<std::mutex> lock(ShardOf(key).mutex);
  flight->begun_ = true;
}

void FlightTable::Land(std::string_view key, const std::shared_ptr<Flight>& flight, Result result) {
  {
    Shard& shard = ShardOf(key);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.flights.find(std::string(key));
    if (found != shard.flights.end() && found->second == flight) shard.flights.erase(found);
  }
  const std::lock_guard<std::mutex> lock(flight->mutex_);
  flight->result_ = std::move(result);
  flight->landed_.notify_all();
}

void FlightTable::Detach(std::string_view key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  shard.flights.erase(std::string(key));
}

}  // namespace warmring
