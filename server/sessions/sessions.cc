#include "server/sessions/sessions.h"

#include <set>
#include <utility>

#include "core/base/mutant.h"
#include "fmt/format.h"
#include "server/executor/failpoint.h"
#include "server/store/schema/key.h"
#include "spdlog/spdlog.h"

namespace warmring {
namespace {

// More than migrations that may be under way at once.
constexpr size_t kMaxEarlyAcks = 128;

}  // namespace

Sessions::Sessions(Environment environment)
    : env_(std::move(environment)), table_(env_.identity.term, env_.lease) {}

void Sessions::Restore(const NodeId& node, const schema::SessionRecord& record) {
  table_.Restore(node, record, env_.clock->Boot());
}

void Sessions::Open(StreamId stream, SessionHello hello, std::shared_ptr<SessionLink> link) {
  const std::optional<schema::SessionRecord> record = table_.ToPersist(hello, env_.clock->Boot());
  const NodeId node = hello.node;
  Stream& state = streams_[stream];
  state.hello = std::move(hello);
  state.link = std::move(link);
  if (!record || IsMutant(Mutant::kP)) {
    Opened(stream, record);
    return;
  }
  Committer::Request request;
  request.batch = env_.identity.Guard();
  request.batch.Put(schema::SessionKey(env_.keyspace->id(), node), schema::Encode(*record));
  request.failpoint = "p0";
  WARMRING_FP("p0.before");
  // The term is its one guard, which is the committer's to watch: here it is committed.
  env_.committer->Commit(std::move(request), env_.strand,
                         [this, stream, record](const CommitResult&) {
                           WARMRING_FP("p0.published");
                           // Even if the stream has ended meanwhile: that incarnation is the node's
                           // last one now.
                           Opened(stream, record);
                         });
}

// Persists answer in the order in which they were asked for, so the last incarnation that was
// persisted is also the last one that opens here.
void Sessions::Opened(StreamId stream, const std::optional<schema::SessionRecord>& record) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  Stream& state = found->second;
  const NodeId node = state.hello.node;
  const bool ended = state.link == nullptr;
  const StreamId replaced = table_.Open(stream, state.hello, record);
  if (const auto old = streams_.find(replaced); old != streams_.end()) {
    spdlog::warn("keyspace {}: node {} opened another session (incarnation {})",
                 env_.keyspace->id(), node, state.hello.incarnation.ToString());
    if (old->second.link != nullptr) {
      old->second.link->Close(absl::AbortedError(
          fmt::format("another session of node {} has taken this one's place", node)));
    }
  }
  if (ended) {
    table_.Close(stream);
    streams_.erase(stream);
  } else {
    spdlog::info("keyspace {}: session of node {} is open (incarnation {})", env_.keyspace->id(),
                 node, state.hello.incarnation.ToString());
    state.open = true;
    state.link->Send(SessionWelcome{env_.identity.history, env_.identity.term, env_.lease,
                                    env_.keyspace->head()->membership->spec().on_restart});
    SendTasks(node);
    WARMRING_FP("p0.sent");
    TryGrant(stream);
  }
  env_.strand->Post(env_.on_change);
}

void Sessions::Renew(StreamId stream, const SessionRenewal& renewal) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  found->second.unanswered = renewal;
  if (found->second.open) TryGrant(stream);
}

void Sessions::TryGrant(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !found->second.open || !found->second.unanswered) return;
  Stream& state = found->second;
  const NodeId& node = state.hello.node;
  const SessionRenewal renewal = *state.unanswered;
  const Version before = table_.AppliedVersionOf(node);
  const auto floors = floors_.find(node);
  const bool carries_floors = floors != floors_.end();
  // The belief is extended before the grant leaves, never after.
  switch (table_.Renew(stream, renewal, env_.clock->Boot(), carries_floors)) {
    case SessionTable::Renewal::kForeign:
      return;
    case SessionTable::Renewal::kWait:
      env_.strand->RunAt(table_.GrantFrom(node), [this, stream] { TryGrant(stream); });
      break;
    case SessionTable::Renewal::kGranted: {
      state.unanswered.reset();
      LeaseGrant grant;
      grant.seq = renewal.seq;
      grant.term = env_.identity.term;
      grant.ttl = env_.lease;
      grant.version = env_.keyspace->head()->membership->version();
      if (carries_floors && !IsMutant(Mutant::kG)) grant.floors = floors->second;
      state.link->Send(std::move(grant));
      Settle(node);
      break;
    }
  }
  if (before != renewal.applied_version) env_.strand->Post(env_.on_change);
}

// Not waited for: until it is durable a restart merely waits once more. Guarded, so that it never
// replaces the record of an incarnation that is being persisted just now.
void Sessions::Settle(const NodeId& node) {
  const std::optional<schema::SessionRecord> record = table_.ToSettle(node);
  if (!record) return;
  schema::SessionRecord waiting = *record;
  waiting.waiting = true;
  Committer::Request request;
  request.batch = env_.identity.Guard();
  request.batch.RequireValue(schema::SessionKey(env_.keyspace->id(), node),
                             schema::Encode(waiting));
  request.batch.Put(schema::SessionKey(env_.keyspace->id(), node), schema::Encode(*record));
  env_.committer->Commit(std::move(request), env_.strand, [](const CommitResult&) {});
}

void Sessions::Report(StreamId stream, TaskReport report) {
  const std::optional<NodeId> node = table_.NodeOf(stream);
  const auto found = streams_.find(stream);
  if (!node || found == streams_.end()) return;
  // An owner speaks for itself alone: for its own node, in its present incarnation.
  if (report.node != *node || report.incarnation != found->second.hello.incarnation) return;
  if (env_.clock->Boot() >= table_.GrantFrom(*node)) {
    TakeEarlyAcks(stream);
  } else if (std::holds_alternative<FenceAck>(report.body)) {
    // Of one task the newest counts, so that nobody fills the memory with them.
    std::erase_if(found->second.early_acks, [&](const TaskReport& known) {
      return known.migration == report.migration && known.wave == report.wave &&
             known.nonce == report.nonce;
    });
    if (found->second.early_acks.size() >= kMaxEarlyAcks) return;
    const bool is_first = found->second.early_acks.empty();
    found->second.early_acks.push_back(std::move(report));
    if (is_first) {
      env_.strand->RunAt(table_.GrantFrom(*node), [this, stream] { TakeEarlyAcks(stream); });
    }
    return;
  }
  env_.on_report(report);
}

// What this incarnation refuses, the one before it may accept until its lease is over.
void Sessions::TakeEarlyAcks(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || !table_.NodeOf(stream)) return;
  for (const TaskReport& ack : std::exchange(found->second.early_acks, {})) env_.on_report(ack);
}

void Sessions::Closed(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  if (!found->second.open) {
    found->second.link = nullptr;
    return;
  }
  if (table_.Close(stream)) {
    spdlog::info("keyspace {}: session of node {} has ended", env_.keyspace->id(),
                 found->second.hello.node);
    env_.strand->Post(env_.on_change);
  }
  streams_.erase(found);
}

void Sessions::SetWork(std::map<NodeId, std::vector<Task>> tasks,
                       std::map<NodeId, std::vector<Floor>> floors) {
  floors_ = std::move(floors);
  std::swap(tasks_, tasks);
  std::set<NodeId> named;
  for (const auto& [node, list] : tasks_) named.insert(node);
  for (const auto& [node, list] : tasks) named.insert(node);
  const auto of = [](const std::map<NodeId, std::vector<Task>>& all, const NodeId& node) {
    const auto found = all.find(node);
    return found == all.end() ? std::vector<Task>() : found->second;
  };
  bool told = false;
  for (const NodeId& node : named) {
    if (of(tasks_, node) == of(tasks, node)) continue;
    // Some know, and others do not.
    if (told) WARMRING_FP_IN_SCOPE("partial");
    SendTasks(node);
    told = true;
  }
}

void Sessions::SendTasks(const NodeId& node) {
  const auto stream = streams_.find(table_.StreamOf(node));
  if (stream == streams_.end() || stream->second.link == nullptr) return;
  SessionTasks message;
  message.term = env_.identity.term;
  if (const auto found = tasks_.find(node); found != tasks_.end()) message.tasks = found->second;
  stream->second.link->Send(std::move(message));
}

void Sessions::CloseAll(const absl::Status& status) {
  for (auto& [id, stream] : streams_) {
    if (stream.link != nullptr) stream.link->Close(status);
  }
}

}  // namespace warmring
