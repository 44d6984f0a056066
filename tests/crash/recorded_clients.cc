#include "tests/crash/recorded_clients.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "client/base/boot_clock.h"
#include "client/redis/refusal.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"
#include "core/membership/keyspace_spec.h"
#include "fmt/format.h"
#include "tests/support/wait.h"

namespace warmring::crash {
namespace {

using history::Event;
using history::Kind;
using history::Result;

// How long a refusal waits for the version that it names.
constexpr absl::Duration kCureWithin = absl::Milliseconds(200);
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(50);
// Places that a thread remembers of a key.
constexpr size_t kRemembered = 8;

RedisPoolOptions PoolOptions(absl::Duration command_timeout) {
  RedisPoolOptions options;
  options.connect_timeout = absl::Milliseconds(300);
  options.command_timeout = command_timeout;
  return options;
}

uint32_t SmallestBucketOf(std::string_view name) {
  return static_cast<uint32_t>(HashKey(HashSpec(), name) >> (64 - KeyspaceSpec::kMinDirectoryBits));
}

}  // namespace

std::vector<HistoryKey> HistoryKeys(size_t buckets, size_t keys_per_bucket) {
  const uint64_t all = uint64_t{1} << KeyspaceSpec::kMinDirectoryBits;
  std::map<uint32_t, size_t> wanted;
  for (size_t i = 0; i < buckets; ++i) {
    wanted[static_cast<uint32_t>(i * all / buckets)] = keys_per_bucket;
  }
  std::vector<HistoryKey> keys;
  for (uint64_t number = 0; keys.size() < buckets * keys_per_bucket; ++number) {
    std::string name = fmt::format("history-{}", number);
    const uint32_t bucket = SmallestBucketOf(name);
    const auto found = wanted.find(bucket);
    if (found == wanted.end() || found->second == 0) continue;
    --found->second;
    keys.push_back({std::move(name), fmt::format("bucket-{}", bucket)});
  }
  return keys;
}

class RecordedClients::Worker {
 public:
  Worker(std::string name, Client* client, uint64_t seed, size_t keys)
      : name_(std::move(name)), client_(client), random_(seed), places_(keys) {}

  Client& GetClient() { return *client_; }
  // Not a standard distribution, whose results differ between libraries.
  size_t Below(size_t bound) { return static_cast<size_t>(random_() % bound); }
  std::string NextValue() { return fmt::format("{}-{}", name_, ++written_); }

  void Remember(size_t key, const Place& place) {
    std::vector<Place>& places = places_[key];
    if (!places.empty() && places.back().epoch == place.epoch && places.back().node == place.node) {
      return;
    }
    if (places.size() == kRemembered) places.erase(places.begin() + 1);
    places.push_back(place);
  }
  // What the thread once believed, or what nobody has told it.
  Place Astray(size_t key) {
    const std::vector<Place>& places = places_[key];
    Place place = places[Below(places.size())];
    const size_t how = Below(4);
    if (how == 0) place.epoch = places.back().epoch.Next();
    if (how == 1) place.epoch = places.back().epoch;
    return place;
  }

 private:
  const std::string name_;
  Client* const client_;
  std::mt19937_64 random_;
  uint64_t written_ = 0;
  std::vector<std::vector<Place>> places_;
};

RecordedClients::RecordedClients(RecordedClientsOptions options, history::Recorder* recorder)
    : options_(std::move(options)),
      recorder_(recorder),
      pool_(PoolOptions(options_.command_timeout)) {}

absl::StatusOr<std::unique_ptr<RecordedClients>> RecordedClients::Start(
    RecordedClientsOptions options, history::Recorder* recorder) {
  std::unique_ptr<RecordedClients> all(new RecordedClients(std::move(options), recorder));
  for (int i = 0; i < all->options_.clients; ++i) {
    ClientOptions client;
    client.endpoints = {all->options_.server};
    client.keyspace = all->options_.keyspace;
    client.client_name = fmt::format("recorded-{}", i);
    client.connect_timeout = absl::Seconds(20);
    ASSIGN_OR_RETURN(std::unique_ptr<Client> connected, Client::Connect(std::move(client)));
    all->clients_.push_back(std::move(connected));
  }
  for (size_t i = 0; i < all->clients_.size(); ++i) {
    Client* const client = all->clients_[i].get();
    const std::string name = fmt::format("client-{}", i);
    all->threads_.emplace_back([self = all.get(), client, name](const std::stop_token& stop) {
      self->Follow(*client, name, stop);
    });
    for (int thread = 0; thread < all->options_.threads; ++thread) {
      auto worker = std::make_shared<Worker>(
          fmt::format("{}.{}", i, thread), client,
          all->options_.seed * 1000 + i * 100 + static_cast<uint64_t>(thread),
          all->options_.keys.size());
      all->threads_.emplace_back(
          [self = all.get(), worker](const std::stop_token& stop) { self->Work(*worker, stop); });
    }
  }
  return all;
}

RecordedClients::~RecordedClients() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void RecordedClients::Pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void RecordedClients::Resume() {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

absl::Status RecordedClients::AwaitAcknowledged(uint64_t count, absl::Duration within) {
  const uint64_t goal = acknowledged_ + count;
  return support::WaitFor(fmt::format("{} more acknowledged operations", count), within,
                          [this, goal] { return acknowledged_ >= goal; });
}

void RecordedClients::Work(Worker& worker, const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(options_.pace), [] { return false; });
    changed_.wait(lock, stop, [this] { return !paused_; });
    if (stop.stop_requested()) return;
    ++busy_;
    lock.unlock();
    Attempt(worker);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void RecordedClients::Attempt(Worker& worker) {
  const size_t number = worker.Below(options_.keys.size());
  const HistoryKey& key = options_.keys[number];
  const std::optional<Location> at = worker.GetClient().router().Locate(key.name);
  if (!at) return;
  Place place{std::string(at->node), std::string(at->address), std::string(at->history_tag),
              at->epoch};
  worker.Remember(number, place);
  const bool astray = worker.Below(100) < options_.astray_percent;
  if (astray) place = worker.Astray(number);

  Event event;
  event.arc = key.arc;
  event.key = key.name;
  event.owner = place.node;
  event.epoch = place.epoch.value;
  const std::string word = fmt::format("{}:{}", place.tag, place.epoch.value);
  std::vector<std::string_view> argv;
  const size_t turn = worker.Below(8);
  const bool is_delete = turn == 0 && !astray;
  if (is_delete) {
    event.kind = Kind::kWrite;
    argv = {"WR.WRITE", word, "DEL", key.name};
  } else if (turn < 4) {
    event.kind = Kind::kWrite;
    event.value = worker.NextValue();
    argv = {"WR.WRITE", word, "SET", key.name, *event.value};
  } else {
    event.kind = Kind::kRead;
    argv = {"WR.READ", word, "GET", key.name};
  }
  const std::string address = options_.dial ? options_.dial(place.address) : place.address;
  absl::StatusOr<RedisPool::Lease> lease =
      pool_.Acquire(address, BootNow() + options_.command_timeout);
  if (!lease.ok()) return;  // nothing was sent
  ++attempts_;
  event.t0 = history::Recorder::Now();
  const absl::StatusOr<RedisReply> reply = (*lease)->Command(argv);
  const int64_t now = history::Recorder::Now();
  if (!reply.ok()) {
    event.result = Result::kUnknown;
    recorder_->Add(std::move(event));
    pool_.DropIdle(address);
    return;
  }
  event.t1 = now;
  const bool is_read_reply =
      event.kind == Kind::kRead && reply->elements.size() == 3 && !reply->elements[0].IsError();
  if (event.kind == Kind::kRead && is_read_reply) {
    if (!reply->elements[0].IsNil()) event.value = reply->elements[0].text;
  } else if (reply->IsError() || event.kind == Kind::kRead) {
    const std::optional<Refusal> refusal = ParseRefusal(reply->text);
    event.result = Result::kRefused;
    if (refusal && refusal->code == RefusalCode::kFencing) event.result = Result::kFenced;
    if (refusal && refusal->code == RefusalCode::kBusy) {
      event.result = Result::kUnknown;
      event.t1 = history::kNever;
    }
    // A delete is refused, is carried out there all the same, and is told to the present owner.
    if (is_delete) {
      event.result = Result::kUnknown;
      event.t1 = history::kNever;
    }
    ++refused_;
    recorder_->Add(std::move(event));
    if (refusal && !astray && refusal->version > at->version) {
      worker.GetClient().WaitForVersion(refusal->version, kCureWithin).IgnoreError();
    }
    return;
  }
  ++acknowledged_;
  recorder_->Add(std::move(event));
}

void RecordedClients::Follow(const Client& client, const std::string& name,
                             const std::stop_token& stop) {
  Membership::Ptr last;
  while (!stop.stop_requested()) {
    const Membership::Ptr present = client.router().membership();
    if (present != nullptr && present != last) {
      Event event;
      event.kind = Kind::kWatch;
      event.t0 = event.t1 = history::Recorder::Now();
      event.owner = name;
      event.version = present->version().value;
      event.text = fmt::format("{:016x}", present->digest());
      recorder_->Add(std::move(event));
      last = present;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, stop, absl::ToChronoNanoseconds(kWatchPeriod), [] { return false; });
  }
}

}  // namespace warmring::crash
