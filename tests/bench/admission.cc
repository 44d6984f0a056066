#include "tests/bench/admission.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "client/base/boot_clock.h"
#include "client/owner/guard_core.h"
#include "core/hashing/key_hash.h"
#include "core/membership/membership.h"
#include "tests/bench/names.h"
#include "tests/bench/pin.h"

namespace warmring::bench {
namespace {

constexpr uint32_t kNodes = 100;
constexpr size_t kKeys = 4096;
constexpr size_t kBatch = 16;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "ownership_bench: %s\n", value.status().ToString().c_str());
  std::abort();
}

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "ownership_bench: %s\n", status.ToString().c_str());
  std::abort();
}

// A directory of 2^16 buckets over 100 nodes, whose ranges have moved often: many epochs.
Membership::Ptr MakeMap() {
  MembershipData data;
  data.history = HistoryId{{0xa1b2c3d4'00000001, 7}};
  data.version = Version(1000);
  data.spec.id = "bench";
  data.spec.directory_bits = 16;
  data.nodes = MakeNodes(kNodes);
  for (uint64_t bucket = 0; bucket < (uint64_t{1} << 16); ++bucket) {
    const uint64_t mixed = bucket * 0x9e3779b97f4a7c15;
    data.ranges.push_back({((bucket + 1) << 48) - 1, static_cast<NodeIndex>((mixed >> 32) % kNodes),
                           Epoch(1 + (mixed >> 54))});
  }
  return Must(Membership::Create(std::move(data)));
}

struct Request {
  std::string key;   // 16 bytes
  std::string word;  // of its range
};

// Requests for keys that NodeName(0) owns, or that it does not own.
std::vector<Request> MakeRequests(const Membership& map, bool owned) {
  std::vector<Request> requests;
  for (uint64_t i = 0; requests.size() < kKeys; ++i) {
    std::string key = fmt::format("{:016x}", i * 0x9e3779b97f4a7c15);
    const OwnedRange range = map.RangeOf(map.PointOf(key));
    if ((range.owner == 0) != owned) continue;
    requests.push_back({std::move(key), FormatEpochWord(map.history(), range.epoch)});
  }
  return requests;
}

// What the guard was before: the same rule, and a table of what is in flight, under one lock.
class LockedGuard {
 public:
  explicit LockedGuard(OwnerView view) : view_(std::move(view)) {}
  uint64_t Begin(const Request& request) {
    const absl::StatusOr<EpochWord> word = EpochWord::Parse(request.word);
    if (!word.ok()) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const KeyPoint point = view_.membership()->PointOf(request.key);
    if (!view_.AdmitWrite(point, *word, BootNow()).ok()) return 0;
    in_flight_.emplace(++last_, request.key);
    return last_;
  }
  void End(uint64_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_flight_.erase(id);
  }

 private:
  std::mutex mutex_;
  OwnerView view_;
  std::unordered_map<uint64_t, std::string> in_flight_;
  uint64_t last_ = 0;
};

// What is often written by hand: bucket to epoch, under a reader's lock. It looks at no clock and
// counts nothing, so it could not be fenced.
class SharedMap {
 public:
  explicit SharedMap(const Membership& map) {
    for (size_t i = 0; i < map.ranges().size(); ++i) {
      if (map.ranges()[i].owner == 0) epochs_[i] = map.ranges()[i].epoch.value;
    }
  }
  bool Check(const Request& request) {
    const absl::StatusOr<EpochWord> word = EpochWord::Parse(request.word);
    if (!word.ok()) return false;
    const uint64_t bucket = HashKey(HashSpec(), request.key) >> 48;
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    const auto found = epochs_.find(bucket);
    return found != epochs_.end() && found->second == word->epoch.value;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> epochs_;
};

double NowNs() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

double Median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Nanoseconds of each step, kBatch times in a row; one value for each batch.
using Samples = std::map<std::string, std::vector<double>>;

// Where a loop is: the requests to make next, and the time since the last mark.
class Lap {
 public:
  Lap(const std::vector<Request>& requests, double clock_ns, size_t first)
      : requests_(requests), clock_ns_(clock_ns), next_(first), mark_(NowNs()) {}
  const Request& Next() { return requests_[next_++ % kKeys]; }
  void Start() { mark_ = NowNs(); }
  // The name is looked up after the time is taken.
  void Mark(Samples& samples, const char* step) {
    const double now = NowNs();
    samples[step].push_back((now - mark_ - clock_ns_) / static_cast<double>(kBatch));
    mark_ = NowNs();
  }

 private:
  const std::vector<Request>& requests_;  // kKeys of them
  const double clock_ns_;                 // of NowNs
  size_t next_;
  double mark_;
};

class Runner {
 public:
  explicit Runner(const PartOptions& options) : options_(options) {
    Pin(options_.cpu);
    std::vector<double> samples;
    for (int i = 0; i < 2001; ++i) {
      const double before = NowNs();
      samples.push_back(NowNs() - before);
    }
    clock_ns_ = Median(samples);
  }

  // `body(lap, samples)` does one batch of each of its steps. It is run by `threads` at once, on a
  // processor each.
  void Run(const std::vector<Request>& requests, int threads,
           const std::function<void(Lap&, Samples&)>& body) {
    const int batches = options_.quick ? 3 : 20'000;
    std::barrier start(threads);
    std::vector<Samples> samples(static_cast<size_t>(threads));
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        Pin(options_.cpu + t);
        Lap lap(requests, clock_ns_, static_cast<size_t>(t) * kKeys / 2);
        Samples mine;
        start.arrive_and_wait();
        for (int i = 0; i < batches; ++i) body(lap, mine);
        samples[static_cast<size_t>(t)] = std::move(mine);
      });
    }
    for (std::thread& thread : running) thread.join();
    for (Samples& mine : samples) {
      for (auto& [step, values] : mine) {
        double& worst = figures_[{step, threads}];
        worst = std::max(worst, Median(values));
      }
    }
  }

  std::vector<AdmissionFigure> Figures() const {
    std::vector<AdmissionFigure> figures;
    for (const auto& [name, ns] : figures_) figures.push_back({name.first, name.second, ns});
    return figures;
  }

 private:
  const PartOptions options_;
  double clock_ns_ = 0;
  std::map<std::pair<std::string, int>, double> figures_;
};

std::unique_ptr<GuardCore> MakeGuard(const Membership::Ptr& map) {
  OwnerOptions options;
  options.keyspace = map->spec().id;
  options.node = NodeName(0);
  options.clock = BootNow;
  auto guard = std::make_unique<GuardCore>(options);
  guard->OnMembership(map);
  Must(guard->Attach(map->history(), OnRestart::kPurge).status());
  LeaseGrant grant;
  grant.seq = Must(guard->Renew()).seq;
  grant.term = Term(1);
  grant.ttl = absl::Hours(1);
  grant.version = map->version();
  Must(guard->Grant(grant));
  return guard;
}

OwnerView MakeView(const Membership::Ptr& map) {
  OwnerView view(map->history(), map->spec().id, NodeName(0), Incarnation{});
  Must(view.Install(map));
  LeaseGrant grant;
  grant.seq = view.Renew(BootNow());
  grant.term = Term(1);
  grant.ttl = absl::Hours(1);
  grant.version = map->version();
  Must(view.Grant(grant));
  return view;
}

}  // namespace

std::vector<AdmissionFigure> MeasureAdmission(const PartOptions& options) {
  const Membership::Ptr map = MakeMap();
  const std::vector<Request> owned = MakeRequests(*map, true);
  const std::vector<Request> others = MakeRequests(*map, false);
  const std::unique_ptr<GuardCore> guard = MakeGuard(map);
  const OwnerView view = MakeView(map);
  LockedGuard locked(view);
  SharedMap shared(*map);
  std::atomic<uint64_t> failures = 0;
  const auto expect = [&failures](bool held) {
    if (!held) failures.fetch_add(1, std::memory_order_relaxed);
  };

  Runner runner(options);
  for (const int threads : {1, 2}) {
    runner.Run(owned, threads, [&](Lap& lap, Samples& samples) {
      int64_t sum = 0;
      lap.Start();
      for (size_t i = 0; i < kBatch; ++i) sum += BootNow().nanos;
      lap.Mark(samples, "clock");
      expect(sum != 0);
    });
    runner.Run(owned, threads, [&](Lap& lap, Samples& samples) {
      std::array<std::optional<WriteGuard>, kBatch> writes;
      lap.Start();
      for (std::optional<WriteGuard>& write : writes) {
        const Request& request = lap.Next();
        absl::StatusOr<WriteGuard> begun = guard->Begin(request.key, request.word);
        if (begun.ok()) write.emplace(*std::move(begun));
      }
      lap.Mark(samples, "begin");
      for (std::optional<WriteGuard>& write : writes) {
        if (!write.has_value() || !write->StillHeld().ok()) expect(false);
      }
      lap.Mark(samples, "still held");
      for (std::optional<WriteGuard>& write : writes) write.reset();
      lap.Mark(samples, "end");
    });
    runner.Run(owned, threads, [&](Lap& lap, Samples& samples) {
      lap.Start();
      for (size_t i = 0; i < kBatch; ++i) {
        const Request& request = lap.Next();
        absl::StatusOr<WriteGuard> write = guard->Begin(request.key, request.word);
        expect(write.ok() && write->StillHeld().ok());
      }
      lap.Mark(samples, "begin, still held, end");
      for (size_t i = 0; i < kBatch; ++i) {
        const Request& request = lap.Next();
        expect(guard->Begin(request.key, request.word).ok());
      }
      lap.Mark(samples, "begin, end");
      for (size_t i = 0; i < kBatch; ++i) {
        const Request& request = lap.Next();
        expect(guard->BeginRead(request.key, request.word).ok());
      }
      lap.Mark(samples, "begin read");
      for (size_t i = 0; i < kBatch; ++i) {
        const Request& request = lap.Next();
        const absl::StatusOr<EpochWord> word = EpochWord::Parse(request.word);
        expect(view.AdmitWrite(map->PointOf(request.key), *word, BootNow()).ok());
      }
      lap.Mark(samples, "the rule and the clock alone");
    });
    runner.Run(others, threads, [&](Lap& lap, Samples& samples) {
      lap.Start();
      for (size_t i = 0; i < kBatch; ++i) {
        const Request& request = lap.Next();
        expect(!guard->Begin(request.key, request.word).ok());
      }
      lap.Mark(samples, "begin, refused");
    });
    runner.Run(owned, threads, [&](Lap& lap, Samples& samples) {
      std::array<uint64_t, kBatch> ids{};
      lap.Start();
      for (uint64_t& id : ids) id = locked.Begin(lap.Next());
      lap.Mark(samples, "mutex: begin");
      for (const uint64_t id : ids) {
        if (id == 0) expect(false);
        locked.End(id);
      }
      lap.Mark(samples, "mutex: end");
    });
    runner.Run(owned, threads, [&](Lap& lap, Samples& samples) {
      lap.Start();
      for (size_t i = 0; i < kBatch; ++i) expect(shared.Check(lap.Next()));
      lap.Mark(samples, "shared_mutex and map, no clock, no count");
    });
  }
  if (failures != 0) {
    std::fprintf(stderr,
                 "ownership_bench: admission: %llu requests were not answered as expected\n",
                 static_cast<unsigned long long>(failures.load()));
    std::abort();
  }
  return runner.Figures();
}

void AddAdmission(const PartOptions& options, OwnershipReport& report) {
  const std::vector<AdmissionFigure> figures = MeasureAdmission(options);
  const std::map<std::string, std::string> headlines = {
      {"begin", "admit_ns"},
      {"begin, still held, end", "write_ns"},
      {"clock", "clock_ns"},
      {"mutex: begin", "admit_mutex_ns"},
  };
  for (const AdmissionFigure& figure : figures) {
    report["admission"].push_back(
        {{"step", figure.step}, {"threads", figure.threads}, {"ns", figure.ns}});
    const auto headline = headlines.find(figure.step);
    if (figure.threads == 2 && headline != headlines.end()) {
      report["headline"][headline->second] = figure.ns;
    }
  }
}

}  // namespace warmring::bench
