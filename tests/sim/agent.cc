#include "tests/sim/agent.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/mutant.h"
#include "core/base/status_macros.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

namespace warmring::sim {
namespace {

constexpr Nanos kFenceRetry = 20 * kMilli;
constexpr Nanos kInstallRetry = 50 * kMilli;
constexpr Nanos kRetryMin = 50 * kMilli;
constexpr Nanos kRetryMax = 2 * kSecond;
constexpr absl::Duration kWelcomeTimeout = absl::Seconds(15);

}  // namespace

Agent::Agent(World* world, NodeId node, Site site, int64_t rate_ppm, Nanos clock_start)
    : Process(&world->scheduler(), site, rate_ppm, clock_start),
      world_(world),
      node_(std::move(node)),
      watcher_(world, this, world->random().Next(),
               [this](const Membership::Ptr& membership) { OnMembership(membership); }),
      backoff_(absl::Milliseconds(50), absl::Seconds(2), world->random().Next()) {}

std::string Agent::Describe() const {
  const std::shared_ptr<Engine> engine = world_->EngineOf(node_);
  const OwnerView* view =
      engine != nullptr && engine->state().bound() ? &engine->state().view() : nullptr;
  return fmt::format(
      "{}: session turn {} {}welcomed, {}granted, {}; newest map {}, installed {}{}; engine {} map "
      "{} {}; {} tasks, {} transfers, {} being ended",
      node_, turn_, welcomed_ ? "" : "not ", granted_ ? "" : "not ",
      renewing_ ? "renewing" : "not renewing", newest_ == nullptr ? 0 : newest_->version().value,
      installed_ == nullptr ? 0 : installed_->version().value,
      installing_ ? ", being installed" : "", engine == nullptr ? "down" : "up",
      view == nullptr || view->membership() == nullptr ? 0 : view->membership()->version().value,
      view != nullptr && view->HasLease(engine->Boot()) ? "with a lease" : "without a lease",
      tasks_.size(), transfers_.size(), retiring_);
}

void Agent::Start() {
  watcher_.Start();
  Connect();
}

void Agent::Visit(std::function<void(Engine&, uint64_t)> work, std::function<void(bool)> done) {
  const std::shared_ptr<Engine> engine = world_->EngineOf(node_);
  const auto self = std::static_pointer_cast<Agent>(shared_from_this());
  const Nanos there = world_->LoopbackDelay();
  world_->scheduler().At(scheduler().now() + there, [=, this, generation = generation_] {
    const bool up = engine != nullptr && engine->alive();
    if (up) work(*engine, generation);
    if (!self->alive()) return;
    self->After(world_->LoopbackDelay(), [=] { done(up && engine->alive()); });
  });
}

// Session, by client/owner/owner_session.cc.

void Agent::Connect() {
  const uint64_t turn = ++turn_;
  welcomed_ = granted_ = renewing_ = false;
  newest_list_ = 0;
  renewed_at_.reset();
  renew_at_ = give_up_at_ = Instant::Never();
  const std::shared_ptr<Server> server = world_->PickServer(site());
  server_ = server;
  if (server == nullptr) {
    After(world_->random().Chance(500) ? kMilli : kSecond,
          [this, turn] { FailSession(turn, false); });
    return;
  }
  After(2 * world_->network().Delay(), [this, turn] { Attach(turn); });
}

void Agent::Attach(uint64_t turn) {
  if (turn != turn_) return;
  const HistoryId history = world_->history();
  const Incarnation fresh = world_->FreshIncarnation();
  Ask<absl::StatusOr<Engine::Attachment>>(
      [=](Engine& engine, uint64_t) -> absl::StatusOr<Engine::Attachment> {
        return engine.Attach(history, fresh);
      },
      [this, turn](const absl::StatusOr<Engine::Attachment>& attached) {
        if (turn != turn_) return;
        if (!attached.ok()) return FailSession(turn, false);
        generation_ = attached->generation;
        if (!attached->purge_due) return OpenSession(turn, *attached);
        Ask<absl::Status>(
            [](Engine& engine, uint64_t generation) { return engine.PurgeAll(generation); },
            [this, turn, attached = *attached](const absl::Status& purged) {
              if (turn != turn_) return;
              if (!purged.ok()) return FailSession(turn, false);
              OpenSession(turn, attached);
            });
      });
}

void Agent::OpenSession(uint64_t turn, const Engine::Attachment& attachment) {
  if (incarnation_ != attachment.incarnation) installed_ = nullptr;
  incarnation_ = attachment.incarnation;
  ++attachments_;
  ForgetOldIncarnation();
  RepeatReports();
  Install();
  const std::shared_ptr<Server> server = server_.lock();
  if (server == nullptr || !server->alive()) return FailSession(turn, false);
  give_up_at_ = Boot() + kWelcomeTimeout;
  stream_ = Stream::Open(&world_->network(), shared_from_this(), server, true);
  stream_->SetOnEnd(0, [this, turn] { FailSession(turn, false); });
  SessionHello hello;
  hello.node = node_;
  hello.incarnation = attachment.incarnation;
  hello.transfer_address = node_ + ":1";
  const uint64_t id = stream_id_ = world_->NextStreamId();
  const auto self = std::static_pointer_cast<Agent>(shared_from_this());
  stream_->Send(0, [server, stream = stream_, id, hello, self, turn] {
    server->OnHello(id, hello, stream, self, turn);
  });
  Tick(turn);
}

void Agent::FailSession(uint64_t turn, bool at_once) {
  if (turn != turn_) return;
  ++turn_;
  if (stream_ != nullptr) stream_->Close(0);
  stream_.reset();
  const bool quick = at_once && granted_;
  welcomed_ = false;
  WhenBoot(Boot() + (quick ? absl::ZeroDuration() : backoff_.Next()), [this, after = turn_] {
    if (after == turn_) Connect();
  });
}

void Agent::Tick(uint64_t turn) {
  if (turn != turn_) return;
  const Instant now = Boot();
  if (now >= give_up_at_) return FailSession(turn, false);
  if (now >= renew_at_) SendRenewal(turn);
  if (turn != turn_) return;
  const Instant wake = std::min(renew_at_, give_up_at_);
  WhenBoot(wake, [this, turn] {
    if (turn == turn_ && std::min(renew_at_, give_up_at_) <= Boot()) Tick(turn);
  });
}

void Agent::SendRenewal(uint64_t turn) {
  const Instant now = Boot();
  const absl::Duration period = lease_ / 4;
  renew_at_ = now + period;
  if (renewing_ || (renewed_at_ && now < *renewed_at_ + 2 * period)) return;
  renewing_ = true;
  Ask<absl::StatusOr<uint64_t>>(
      [](Engine& engine, uint64_t generation) { return engine.Renew(generation); },
      [this, turn, now, period](const absl::StatusOr<uint64_t>& seq) {
        if (turn != turn_) return;
        renewing_ = false;
        if (absl::IsAborted(seq.status())) return FailSession(turn, true);
        if (!seq.ok()) {
          renew_at_ = Boot() + period / 4;
          return Tick(turn);
        }
        seq_ = *seq;
        renewed_at_ = now;
        SessionRenewal renewal;
        renewal.seq = *seq;
        if (installed_ != nullptr) renewal.applied_version = installed_->version();
        stream_->Send(0, [server = server_, id = stream_id_, renewal] {
          if (const auto at = server.lock()) at->OnRenewal(id, renewal);
        });
      });
}

void Agent::OnSessionMessage(uint64_t turn, uint64_t order, const SessionMessage& message) {
  if (turn != turn_) return;
  if (const auto* welcome = std::get_if<SessionWelcome>(&message)) {
    if (welcomed_) return;
    if (!TermIsPresent(welcome->term)) return FailSession(turn, false);
    const Instant now = Boot();
    welcomed_ = true;
    lease_ = welcome->lease;
    renew_at_ = now;
    give_up_at_ = now + 2 * lease_ + absl::Seconds(1);
    SendReports();
    Tick(turn);
  } else if (const auto* grant = std::get_if<LeaseGrant>(&message)) {
    if (!TermIsPresent(grant->term)) return;
    OnGrant(turn, *grant);
  } else if (const auto& tasks = std::get<SessionTasks>(message); TermIsPresent(tasks.term)) {
    // A list may be lost, and come twice, also where the weather is a soup; but the one before
    // never comes after it. That is what the protocol needs of the order of a stream: see the
    // README.
    if (order < newest_list_) return;
    newest_list_ = order;
    SetTasks(tasks.tasks);
  }
}

bool Agent::TermIsPresent(Term term) {
  if (term < highest_term_ && !IsMutant(Mutant::kK)) return false;
  highest_term_ = term;
  return true;
}

void Agent::OnGrant(uint64_t turn, const LeaseGrant& grant) {
  Ask<absl::Status>(
      [grant](Engine& engine, uint64_t generation) { return engine.Grant(generation, grant); },
      [this, turn, grant](const absl::Status& granted) {
        if (turn != turn_) return;
        if (absl::IsAborted(granted)) return FailSession(turn, true);
        backoff_.Reset();
        granted_ = true;
        give_up_at_ = Boot() + std::max(lease_, absl::Milliseconds(100));
        if (grant.seq == seq_) renewed_at_.reset();
        if (granted.ok()) world_->OnLeaseGranted(node_);
        Tick(turn);
      });
}

// Memberships, by agent/owner_link.cc.

void Agent::OnMembership(const Membership::Ptr& membership) {
  newest_ = membership;
  Install();
}

void Agent::Install() {
  if (installing_ || !incarnation_ || newest_ == nullptr || newest_ == installed_) return;
  installing_ = true;
  Ask<absl::Status>(
      [membership = newest_](Engine& engine, uint64_t generation) {
        return engine.InstallMap(generation, membership);
      },
      [this, membership = newest_, attachments = attachments_](const absl::Status& status) {
        if (!status.ok()) {
          After(kInstallRetry, [this] {
            installing_ = false;
            Install();
          });
          return;
        }
        installing_ = false;
        if (attachments == attachments_) {
          installed_ = membership;
          for (auto& [key, transfer] : transfers_) {
            for (auto& [donor, source] : transfer->sources) Attempt(transfer, source);
          }
          // What the map gives to others is dropped, by agent/releaser.cc.
          After(world_->random().Between(kMilli, 500 * kMilli), [this] {
            Ask<absl::Status>(
                [](Engine& engine, uint64_t generation) { return engine.PurgeLeft(generation); },
                [](const absl::Status&) {});
          });
        }
        Install();
      });
}

// Tasks, by agent/task_runner.cc.

Agent::Key Agent::KeyOf(const Task& task) {
  Key key{task.migration, task.wave, task.nonce, Kind::kWarm, 0};
  if (std::holds_alternative<VerifyTask>(task.body)) key.kind = Kind::kVerify;
  if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
    key.kind = Kind::kFence;
    key.epoch = fence->floor.value;
  }
  if (const auto* prepare = std::get_if<PrepareTask>(&task.body)) {
    key.kind = Kind::kPrepare;
    key.epoch = prepare->epoch.value;
    key.mode = prepare->mode;
  }
  return key;
}

void Agent::SetTasks(const std::vector<Task>& tasks) {
  world_->Note([&] {
    std::string text = node_ + " is to do:";
    for (const Task& task : tasks) {
      static constexpr const char* kNames[] = {"warm", "verify", "fence", "prepare"};
      text += fmt::format(" {} {}", kNames[task.body.index()], task.migration);
    }
    return text;
  });
  std::set<Key> listed;
  std::set<std::pair<MigrationId, Id128>> needed;
  for (const Task& task : tasks) {
    listed.insert(KeyOf(task));
    if (NeedsTransfer(task)) needed.insert({task.migration, task.nonce});
  }
  for (auto at = tasks_.begin(); at != tasks_.end();) {
    if (listed.contains(at->first)) {
      ++at;
      continue;
    }
    Retire(at->second);
    at = tasks_.erase(at);
  }
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    if (needed.contains(at->first)) {
      ++at;
      continue;
    }
    Retire(at->second);
    at = transfers_.erase(at);
  }
  for (const Task& task : tasks) {
    Entry& entry = tasks_[KeyOf(task)];
    if (ChangesTaskOf(task) != nullptr && entry.task != task) entry.answered = false;
    entry.task = task;
  }
  BeginAll();
  Refresh();
}

void Agent::BeginAll() {
  for (const Kind kind : {Kind::kFence, Kind::kWarm, Kind::kVerify, Kind::kPrepare}) {
    for (auto& [key, entry] : tasks_) {
      if (key.kind != kind) continue;
      if (kind != Kind::kFence && retiring_ > 0) return;
      Begin(key, entry);
    }
  }
}

void Agent::Begin(const Key& key, Entry& entry) {
  if (const auto* warm = std::get_if<WarmTask>(&entry.task.body)) {
    BeginWarm(key, *warm);
  } else if (std::holds_alternative<VerifyTask>(entry.task.body)) {
    if (const TransferPtr transfer = TransferOf(key)) transfer->verify = true;
  } else if (const auto* prepare = std::get_if<PrepareTask>(&entry.task.body)) {
    BeginPreparation(key, entry, *prepare);
  } else if (!entry.answered && !entry.asking) {
    entry.asking = true;
    BeginFence(key);
  }
}

void Agent::BeginFence(const Key& key) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end()) return;
  const FenceTask fence = std::get<FenceTask>(found->second.task.body);
  Ask<absl::StatusOr<Engine::Fenced>>(
      [key, fence](Engine& engine, uint64_t generation) {
        return engine.Fence(generation, key.migration, fence.floor, fence.ranges);
      },
      [this, key, fence, epoch = epoch_](const absl::StatusOr<Engine::Fenced>& fenced) {
        const auto at = tasks_.find(key);
        if (at == tasks_.end() || epoch != epoch_) return;
        if (!fenced.ok()) {
          After(kFenceRetry, [this, key] { BeginFence(key); });
          return;
        }
        Entry& entry = at->second;
        entry.asking = false;
        entry.answered = true;
        entry.fenced = fenced->watermark;
        Put(key, entry,
            FenceAck{fence.floor, fenced->watermark.log_id, fenced->watermark.position,
                     fenced->dirty_complete});
        world_->OnFenceAcknowledged(node_);
        for (const auto& donor : donors_) donor->Nudge();
        SendReports();
      });
}

void Agent::HangUp() {
  for (const auto& donor : donors_) donor->HangUp();
}

std::optional<LogPlace> Agent::FencedAt(const MigrationId& migration,
                                        const HashRangeSet& ranges) const {
  for (const auto& [key, entry] : tasks_) {
    if (key.kind != Kind::kFence || key.migration != migration || !entry.fenced) continue;
    if (std::get<FenceTask>(entry.task.body).ranges.Includes(ranges)) return entry.fenced;
  }
  return std::nullopt;
}

bool Agent::IsPreparing(const Key& warm) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& item) {
    return item.first.migration == warm.migration && item.first.nonce == warm.nonce &&
           ChangesTaskOf(item.second.task) != nullptr;
  });
}

void Agent::BeginWarm(const Key& key, const WarmTask& task) {
  TransferPtr& transfer = transfers_[{key.migration, key.nonce}];
  if (transfer == nullptr) {
    if (IsPreparing(key)) {
      transfers_.erase({key.migration, key.nonce});
      Put(key, tasks_[key], TaskFailure{"restarted while a wave was being fenced", true});
      return;
    }
    transfer = std::make_shared<Transfer>();
    transfer->migration = key.migration;
    transfer->nonce = key.nonce;
  }
  SetWanted(transfer, task);
}

void Agent::BeginPreparation(const Key& key, Entry& entry, const PrepareTask& task) {
  if (task.mode == PrepareTask::Mode::kChanges) return;
  if (entry.preparation && IsSameWork(entry.preparation->first_task, task)) {
    entry.preparation->task = task;
    return;
  }
  if (entry.preparation) {
    Retire(entry);
    if (retiring_ > 0) return;
  }
  entry.answered = false;
  entry.preparation = std::make_shared<Preparation>();
  entry.preparation->key = key;
  entry.preparation->task = entry.preparation->first_task = task;
  const PreparationPtr preparation = entry.preparation;
  preparation->busy = true;
  const auto begin = [this, preparation] {
    preparation->busy = false;
    Prepare(preparation);
  };
  if (const TransferPtr transfer = TransferOf(key)) {
    Exclude(transfer, RangesOf(task), begin);
  } else {
    begin();
  }
}

Agent::TransferPtr Agent::TransferOf(const Key& key) const {
  const auto found = transfers_.find({key.migration, key.nonce});
  return found == transfers_.end() ? nullptr : found->second;
}

// Everything that was done with an earlier engine is void.
void Agent::ForgetOldIncarnation() {
  if (incarnation_ == seen_incarnation_) return;
  seen_incarnation_ = incarnation_;
  ++epoch_;
  for (auto& [key, entry] : tasks_) Retire(entry);
  for (auto& [key, transfer] : transfers_) Retire(transfer);
  transfers_.clear();
  tasks_.clear();
}

void Agent::Retire(Entry& entry) {
  const PreparationPtr preparation = std::exchange(entry.preparation, nullptr);
  if (preparation == nullptr) return;
  preparation->cancelled = true;
  if (preparation->ended) return;
  ++retiring_;
  if (preparation->stream != nullptr) preparation->stream->Close(0);
  preparation->stream.reset();
  if (!preparation->busy) EndPreparation(preparation, absl::CancelledError("over"));
}

void Agent::Retire(const TransferPtr& transfer) {
  transfer->cancelled = true;
  ++retiring_;
  transfer->waiting.emplace_back(
      [transfer = transfer.get()] {
        return std::none_of(transfer->sources.begin(), transfer->sources.end(),
                            [](const auto& item) { return item.second.running; });
      },
      [this] { Retired(); });
  for (auto& [donor, source] : transfer->sources) {
    if (source.running) EndAttempt(transfer, source, absl::CancelledError("over"));
  }
  After(0, [this, transfer] { CheckWaiting(transfer); });
}

void Agent::Retired() {
  --retiring_;
  if (retiring_ > 0) return;
  BeginAll();
  Refresh();
}

void Agent::Refresh() {
  const uint64_t first = next_due_;
  for (auto& [key, entry] : tasks_) {
    const TransferPtr transfer = TransferOf(key);
    if (key.kind == Kind::kPrepare) {
      RefreshPrepare(key, entry);
    } else if (key.kind == Kind::kWarm && transfer != nullptr) {
      if (transfer->failure) {
        Put(key, entry, *transfer->failure);
        continue;
      }
      WarmReport report;
      report.purged = report.caught_up = true;
      for (const auto& [donor, source] : transfer->sources) {
        report.purged = report.purged && (source.purged || source.idle);
        report.caught_up = report.caught_up && (source.caught_up || source.idle);
      }
      Put(key, entry, report);
    } else if (key.kind == Kind::kVerify && transfer != nullptr && transfer->verify &&
               !transfer->failure) {
      VerifyReport report;
      report.done =
          std::all_of(transfer->sources.begin(), transfer->sources.end(),
                      [](const auto& item) { return item.second.caught_up || item.second.idle; });
      Put(key, entry, report);
    }
  }
  if (next_due_ != first) SendReports();
}

void Agent::RefreshPrepare(const Key& key, Entry& entry) {
  const PrepareTask* task = ChangesTaskOf(entry.task);
  const TransferPtr transfer = TransferOf(key);
  if (entry.answered || task == nullptr || transfer == nullptr) return;
  PreparedReport report;
  switch (TryPrepare(*transfer, *task, &report)) {
    case Preparedness::kNotYet:
      return;
    case Preparedness::kPrepared:
      entry.answered = true;
      return Put(key, entry, report);
    case Preparedness::kTooLate:
      entry.answered = true;
      return Put(key, entry, TaskFailure{"too late", true});
  }
}

void Agent::Put(const Key& key, Entry& entry, decltype(TaskReport::body) body) {
  TaskReport report{key.migration, key.wave, key.nonce, node_, *incarnation_, std::move(body)};
  if (entry.report == report) return;
  entry.report = std::move(report);
  entry.due = next_due_++;
}

void Agent::RepeatReports() {
  for (auto& [key, entry] : tasks_) {
    if (entry.report && entry.due == 0) entry.due = next_due_++;
  }
}

void Agent::SendReports() {
  if (!welcomed_) return;
  std::map<uint64_t, Entry*> due;
  for (auto& [key, entry] : tasks_) {
    if (entry.due != 0) due[entry.due] = &entry;
  }
  for (const auto& [order, entry] : due) {
    entry->due = 0;
    auto report = std::make_shared<const TaskReport>(*entry->report);
    stream_->Send(0, [server = server_, id = stream_id_, report = std::move(report)] {
      if (const auto at = server.lock()) at->OnReport(id, *report);
    });
  }
}

// Transfers, by agent/transfer/transfer_client.cc.

void Agent::SetWanted(const TransferPtr& transfer, const WarmTask& task) {
  if (transfer->cancelled) return;
  for (const TransferSource& wanted : task.sources) {
    Source& source = transfer->sources[wanted.donor];
    source.donor = wanted.donor;
    source.wanted = wanted;
  }
  for (auto& [donor, source] : transfer->sources) {
    const bool listed =
        std::any_of(task.sources.begin(), task.sources.end(),
                    [&, id = donor](const TransferSource& s) { return s.donor == id; });
    if (!listed) source.wanted.ranges = HashRangeSet();
    Attempt(transfer, source);
  }
}

HashRangeSet Agent::Wanted(const Transfer& transfer, Source& source) const {
  source.idle = false;
  if (installed_ == nullptr) return {};
  const HashRangeSet left = source.wanted.ranges.Minus(transfer.excluded)
                                .Minus(MovingRanges(*installed_, transfer.migration,
                                                    MovePhase::kGrace, source.donor, node_));
  source.idle = left.empty();
  const HashRangeSet pending =
      MovingRanges(*installed_, transfer.migration, MovePhase::kWarming, source.donor, node_);
  return pending.Includes(left) ? left : HashRangeSet();
}

template <typename Result>
void Agent::AskFor(const TransferPtr& transfer, Source& source,
                   std::function<Result(Engine&, uint64_t)> work,
                   std::function<void(Result)> done) {
  source.busy = true;
  Ask<Result>(std::move(work), [this, transfer, &source, done](Result result) {
    source.busy = false;
    if (source.ending) {
      AttemptEnded(transfer, source, *source.ending);
    } else {
      done(std::move(result));
    }
  });
}

void Agent::Attempt(const TransferPtr& transfer, Source& source) {
  if (source.running || transfer->over()) return;
  const bool was_idle = source.idle;
  HashRangeSet ranges = Wanted(*transfer, source);
  if (source.idle && !was_idle) After(0, [this] { Refresh(); });
  if (ranges.empty() || source.wanted.transfer_address.empty()) return;
  source.ranges = ranges;
  source.running = true;
  source.purged = source.scan_done = source.caught_up = false;
  source.applied = 0;
  source.inbox.clear();
  source.ending.reset();
  ++source.attempt;
  source.open = world_->FreshIncarnation();
  world_->Note([&] { return fmt::format("{} begins to copy from {}", node_, source.donor); });
  AskFor<absl::Status>(
      transfer, source,
      [nonce = source.open, migration = transfer->migration, ranges](Engine& engine,
                                                                     uint64_t generation) {
        return engine.Open(generation, nonce, migration, ranges);
      },
      [this, transfer, &source](const absl::Status& opened) {
        if (!opened.ok()) return EndAttempt(transfer, source, opened);
        PurgeStep(transfer, source, "");
      });
}

void Agent::PurgeStep(const TransferPtr& transfer, Source& source, const std::string& cursor) {
  AskFor<absl::StatusOr<std::string>>(
      transfer, source,
      [nonce = source.open, cursor](Engine& engine, uint64_t generation) {
        return engine.PurgeTransfer(generation, nonce, cursor);
      },
      [this, transfer, &source](const absl::StatusOr<std::string>& next) {
        if (!next.ok()) return EndAttempt(transfer, source, next.status());
        if (!next->empty()) return PurgeStep(transfer, source, *next);
        source.purged = true;
        Refresh();
        Dial(transfer, source);
      });
}

std::shared_ptr<Stream> Agent::DialDonor(const NodeId& donor, const Order& order,
                                         std::function<void(const Parcel&)> deliver,
                                         std::function<void()> broken,
                                         std::function<void(uint64_t)>* acknowledge) {
  const std::shared_ptr<Agent> other = world_->AgentOf(donor);
  if (other == nullptr || !other->alive()) return nullptr;
  auto stream = Stream::Open(&world_->network(), shared_from_this(), other, false);
  stream->SetOnEnd(0, std::move(broken));
  auto end = std::make_shared<std::weak_ptr<Donor>>();
  stream->Send(0, [other, order, stream, deliver = std::move(deliver), end] {
    other->OnOrder(order, stream, deliver, end.get());
  });
  if (acknowledge != nullptr) {
    *acknowledge = [stream = std::weak_ptr<Stream>(stream), end](uint64_t position) {
      if (const auto open = stream.lock()) {
        open->Send(0, [end, position] {
          if (const auto at = end->lock()) at->Acknowledge(position);
        });
      }
    };
  }
  return stream;
}

void Agent::Dial(const TransferPtr& transfer, Source& source) {
  const uint64_t attempt = source.attempt;
  source.stream = DialDonor(
      source.donor, Order{transfer->migration, false, source.ranges, node_},
      [this, transfer, &source, attempt](const Parcel& parcel) {
        if (!alive() || attempt != source.attempt || !source.running) return;
        source.inbox.push_back(parcel);
        Take(transfer, source);
      },
      [this, transfer, &source, attempt] {
        if (attempt == source.attempt) {
          EndAttempt(transfer, source, absl::UnavailableError("the stream ended"));
        }
      },
      &source.acknowledge);
  if (source.stream == nullptr) EndAttempt(transfer, source, absl::UnavailableError("no agent"));
}

void Agent::Take(const TransferPtr& transfer, Source& source) {
  while (!source.busy && !source.ending && source.running && !source.inbox.empty()) {
    const Parcel parcel = std::move(source.inbox.front());
    source.inbox.pop_front();
    if (parcel.kind != Parcel::Kind::kItems) {
      Took(transfer, source, parcel);
      continue;
    }
    AskFor<absl::Status>(
        transfer, source,
        [nonce = source.open, items = parcel.items](Engine& engine, uint64_t generation) {
          return engine.Apply(generation, nonce, items);
        },
        [this, transfer, &source](const absl::Status& applied) {
          if (!applied.ok()) return EndAttempt(transfer, source, applied);
          Take(transfer, source);
        });
  }
}

void Agent::Took(const TransferPtr& transfer, Source& source, const Parcel& parcel) {
  if (parcel.kind == Parcel::Kind::kScanEnd) {
    source.scan_done = true;
  } else if (parcel.kind == Parcel::Kind::kPosition) {
    if (!source.log_id.empty() && source.log_id != parcel.place.log_id) {
      return EndAttempt(transfer, source, absl::DataLossError("the donor was restarted"));
    }
    source.log_id = parcel.place.log_id;
    source.applied = parcel.place.position;
    source.caught_up = source.scan_done;
    if (source.acknowledge) source.acknowledge(source.applied);
    Refresh();
  } else {
    EndAttempt(transfer, source, absl::DataLossError("the donor cannot vouch for it"));
  }
}

void Agent::EndAttempt(const TransferPtr& transfer, Source& source, const absl::Status& why) {
  if (!source.running || source.ending) return;
  source.ending = why;
  if (source.stream != nullptr) source.stream->Close(0);
  source.stream.reset();
  source.acknowledge = nullptr;
  if (!source.busy) AttemptEnded(transfer, source, why);
}

void Agent::AttemptEnded(const TransferPtr& transfer, Source& source, const absl::Status& why) {
  source.busy = true;
  CloseUntil(source.open, [this, transfer, &source, why] {
    const bool asked = source.restart || transfer->over();
    const bool was_caught_up = source.caught_up;
    source.busy = source.running = source.restart = false;
    source.ending.reset();
    source.purged = source.scan_done = source.caught_up = false;
    source.inbox.clear();
    if (!asked && (absl::IsInvalidArgument(why) || absl::IsDataLoss(why))) {
      transfer->failure = TaskFailure{std::string(why.message()), absl::IsDataLoss(why)};
      for (auto& [donor, other] : transfer->sources) EndAttempt(transfer, other, why);
    }
    source.delay = asked           ? 0
                   : was_caught_up ? kRetryMin
                                   : std::clamp(source.delay * 2, kRetryMin, kRetryMax);
    CheckWaiting(transfer);
    Refresh();
    After(source.delay, [this, transfer, &source] { Attempt(transfer, source); });
  });
}

void Agent::CloseUntil(const Id128& nonce, std::function<void()> then) {
  Ask<absl::Status>(
      [nonce](Engine& engine, uint64_t generation) {
        return engine.CloseTransfer(generation, nonce);
      },
      [this, nonce, then = std::move(then)](const absl::Status& closed) {
        if (closed.ok()) return then();
        After(kRetryMin, [this, nonce, then] { CloseUntil(nonce, then); });
      });
}

Agent::Preparedness Agent::TryPrepare(Transfer& transfer, const PrepareTask& task,
                                      PreparedReport* report) {
  if (transfer.over()) return Preparedness::kNotYet;
  report->epoch = task.epoch;
  report->mode = task.mode;
  for (const PrepareTask::Donor& donor : task.donors) {
    const auto found = transfer.sources.find(donor.source.donor);
    if (found == transfer.sources.end()) return Preparedness::kNotYet;
    const Source& source = found->second;
    const HashRangeSet& ranges = donor.source.ranges;
    const bool streams = source.running && !source.ending && !source.restart &&
                         source.log_id == donor.log_id && source.ranges.Includes(ranges);
    const bool applied = streams && source.scan_done && source.applied >= donor.watermark;
    const bool promised = source.promised_log_id == donor.log_id &&
                          source.promised >= donor.watermark &&
                          source.promised_ranges.Includes(ranges);
    if (!applied && !promised) {
      const bool too_late = !streams && transfer.excluded.Intersects(ranges);
      return too_late ? Preparedness::kTooLate : Preparedness::kNotYet;
    }
    report->donors.push_back(donor.source.donor);
    report->log_ids.push_back(donor.log_id);
    report->applied.push_back(applied ? source.applied : source.promised);
  }
  for (size_t i = 0; i < task.donors.size(); ++i) {
    const TransferSource& from = task.donors[i].source;
    Source& source = transfer.sources[from.donor];
    source.promised_log_id = report->log_ids[i];
    source.promised = report->applied[i];
    source.promised_ranges = from.ranges;
    transfer.excluded = transfer.excluded.Union(from.ranges);
  }
  return Preparedness::kPrepared;
}

void Agent::Exclude(const TransferPtr& transfer, const HashRangeSet& ranges,
                    std::function<void()> then) {
  transfer->excluded = transfer->excluded.Union(ranges);
  for (auto& [donor, source] : transfer->sources) {
    if (!source.running || !source.ranges.Intersects(ranges)) continue;
    source.restart = true;
    EndAttempt(transfer, source, absl::CancelledError("excluded"));
  }
  transfer->waiting.emplace_back(
      [transfer = transfer.get()] {
        return std::none_of(transfer->sources.begin(), transfer->sources.end(),
                            [](const auto& item) { return item.second.restart; });
      },
      std::move(then));
  After(0, [this, transfer] { CheckWaiting(transfer); });
}

void Agent::CheckWaiting(const TransferPtr& transfer) {
  for (size_t i = 0; i < transfer->waiting.size();) {
    if (!transfer->waiting[i].first()) {
      ++i;
      continue;
    }
    const std::function<void()> then = std::move(transfer->waiting[i].second);
    transfer->waiting.erase(transfer->waiting.begin() + static_cast<std::ptrdiff_t>(i));
    then();
    i = 0;
  }
}

// Preparations, by agent/transfer/preparation.cc.

template <typename Result>
void Agent::AskFor(const PreparationPtr& preparation, std::function<Result(Engine&, uint64_t)> work,
                   std::function<void(Result)> done) {
  preparation->busy = true;
  Ask<Result>(std::move(work), [this, preparation, done](Result result) {
    preparation->busy = false;
    if (preparation->cancelled) {
      EndPreparation(preparation, absl::CancelledError("over"));
    } else {
      done(std::move(result));
    }
  });
}

void Agent::Prepare(const PreparationPtr& preparation) {
  if (preparation->ended) return;
  if (preparation->cancelled) {
    return EndPreparation(preparation, absl::CancelledError("over"));
  }
  ++preparation->attempt;
  preparation->asleep = false;
  preparation->applied.clear();
  preparation->inbox.clear();
  preparation->open = world_->FreshIncarnation();
  AskFor<absl::Status>(
      preparation,
      [nonce = preparation->open, migration = preparation->key.migration,
       ranges = RangesOf(preparation->task)](Engine& engine, uint64_t generation) {
        return engine.Open(generation, nonce, migration, ranges);
      },
      [this, preparation](const absl::Status& opened) {
        if (!opened.ok()) return EndPreparation(preparation, opened);
        if (preparation->task.mode == PrepareTask::Mode::kPurge) {
          PurgePrepared(preparation, "");
        } else {
          PullDirty(preparation, 0);
        }
      });
}

void Agent::PurgePrepared(const PreparationPtr& preparation, const std::string& cursor) {
  AskFor<absl::StatusOr<std::string>>(
      preparation,
      [nonce = preparation->open, cursor](Engine& engine, uint64_t generation) {
        return engine.PurgeTransfer(generation, nonce, cursor);
      },
      [this, preparation](const absl::StatusOr<std::string>& next) {
        if (!next.ok()) return EndPreparation(preparation, next.status());
        if (!next->empty()) return PurgePrepared(preparation, *next);
        for (const PrepareTask::Donor& donor : preparation->task.donors) {
          preparation->applied.push_back({donor.log_id, donor.watermark});
        }
        EndPreparation(preparation, absl::OkStatus());
      });
}

void Agent::PullDirty(const PreparationPtr& preparation, size_t donor) {
  if (donor == preparation->task.donors.size()) {
    return EndPreparation(preparation, absl::OkStatus());
  }
  const PrepareTask::Donor& from = preparation->task.donors[donor];
  if (installed_ == nullptr || from.source.transfer_address.empty()) {
    return EndPreparation(preparation, absl::UnavailableError("no session of its agent"));
  }
  const uint64_t attempt = preparation->attempt;
  preparation->stream = DialDonor(
      from.source.donor, Order{preparation->key.migration, true, from.source.ranges, node_},
      [this, preparation, attempt, donor](const Parcel& parcel) {
        if (!alive() || attempt != preparation->attempt || preparation->cancelled) return;
        preparation->inbox.push_back(parcel);
        TakeDirty(preparation, donor);
      },
      [this, preparation, attempt] {
        if (attempt == preparation->attempt && !preparation->busy && !preparation->asleep) {
          EndPreparation(preparation, absl::UnavailableError("the stream ended"));
        }
      },
      nullptr);
  if (preparation->stream == nullptr) {
    EndPreparation(preparation, absl::UnavailableError("no agent"));
  }
}

void Agent::TakeDirty(const PreparationPtr& preparation, size_t donor) {
  if (preparation->busy || preparation->asleep || preparation->ended) return;
  if (preparation->inbox.empty()) return;
  const Parcel parcel = std::move(preparation->inbox.front());
  preparation->inbox.pop_front();
  if (parcel.kind == Parcel::Kind::kItems) {
    AskFor<absl::Status>(
        preparation,
        [nonce = preparation->open, items = parcel.items](Engine& engine, uint64_t generation) {
          return engine.Apply(generation, nonce, items);
        },
        [this, preparation, donor](const absl::Status& applied) {
          if (!applied.ok()) return EndPreparation(preparation, applied);
          TakeDirty(preparation, donor);
        });
    return;
  }
  if (preparation->stream != nullptr) preparation->stream->Close(0);
  preparation->stream.reset();
  if (donor >= preparation->task.donors.size()) {
    return EndPreparation(preparation, absl::UnavailableError("the task changed"));
  }
  const PrepareTask::Donor& from = preparation->task.donors[donor];
  if (!parcel.complete) {
    return EndPreparation(preparation, absl::ResourceExhaustedError("not complete"));
  }
  if (parcel.place.log_id != from.log_id || parcel.place.position < from.watermark) {
    return EndPreparation(preparation, absl::DataLossError("it was restarted since its fence"));
  }
  preparation->applied.push_back(parcel.place);
  preparation->inbox.clear();
  PullDirty(preparation, donor + 1);
}

void Agent::EndPreparation(const PreparationPtr& preparation, const absl::Status& status) {
  if (preparation->stream != nullptr) preparation->stream->Close(0);
  preparation->stream.reset();
  preparation->busy = true;
  CloseUntil(preparation->open, [this, preparation, status] {
    preparation->busy = false;
    if (preparation->cancelled) {
      preparation->ended = true;
      return Retired();
    }
    const bool hopeless = absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
                          absl::IsResourceExhausted(status);
    if (!status.ok() && !hopeless) {
      preparation->asleep = true;
      After(kRetryMin, [this, preparation] {
        if (!preparation->cancelled) Prepare(preparation);
      });
      return;
    }
    preparation->ended = true;
    const auto at = tasks_.find(preparation->key);
    if (at == tasks_.end() || at->second.preparation != preparation) return;
    at->second.answered = true;
    if (hopeless) {
      Put(at->first, at->second,
          TaskFailure{std::string(status.message()), absl::IsDataLoss(status)});
    } else {
      PreparedReport report;
      report.epoch = preparation->task.epoch;
      report.mode = preparation->task.mode;
      for (const PrepareTask::Donor& donor : preparation->task.donors) {
        report.donors.push_back(donor.source.donor);
      }
      for (const LogPlace& place : preparation->applied) {
        report.log_ids.push_back(place.log_id);
        report.applied.push_back(place.position);
      }
      Put(at->first, at->second, report);
    }
    SendReports();
  });
}

// The donor's side, by agent/transfer/transfer_server.cc and donor_stream.cc.

void Agent::OnOrder(const Order& order, std::shared_ptr<Stream> stream,
                    std::function<void(const Parcel&)> deliver, std::weak_ptr<Donor>* end) {
  const auto refuse = [&] { stream->Close(1); };
  if (installed_ == nullptr) return refuse();
  const HashRangeSet moving =
      order.dirty
          ? MovingRanges(*installed_, order.migration, MovePhase::kGrace, order.recipient, node_)
          : MovingRanges(*installed_, order.migration, MovePhase::kWarming, node_, order.recipient);
  if (!moving.Includes(order.ranges)) return refuse();
  if (order.dirty && !FencedAt(order.migration, order.ranges)) return refuse();
  auto donor = std::make_shared<Donor>(this, order, stream, std::move(deliver));
  *end = donor;
  stream->SetOnEnd(1, [weak = std::weak_ptr<Donor>(donor)] {
    if (const auto at = weak.lock()) at->Stop();
  });
  std::erase_if(donors_, [](const auto& known) { return known->stopped(); });
  donors_.push_back(donor);
  donor->Start();
}

}  // namespace warmring::sim
