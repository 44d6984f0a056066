#include "server/sessions/session_table.h"

#include <algorithm>

namespace warmring {

void SessionTable::Restore(const NodeId& node, const schema::SessionRecord& record, Instant start) {
  Entry& entry = entries_[node];
  entry.status.incarnation = record.incarnation;
  entry.lease = record.lease == absl::ZeroDuration() ? lease_ : record.lease;
  entry.earlier_until =
      IsMutant(Mutant::kD) ? start : start + Belief(std::max(entry.lease, lease_));
  entry.status.belief_until = entry.earlier_until;
  entry.opened = record.term;
  entry.waiting = record.waiting && !IsMutant(Mutant::kO);
  if (entry.waiting) entry.grant_from = entry.status.belief_until;
}

std::optional<schema::SessionRecord> SessionTable::ToPersist(const SessionHello& hello,
                                                             Instant now) const {
  schema::SessionRecord record;
  record.incarnation = hello.incarnation;
  record.term = term_;
  record.lease = lease_;
  const auto found = entries_.find(hello.node);
  if (found == entries_.end()) return record;
  const Entry& entry = found->second;
  if (now < entry.earlier_until) record.lease = std::max(record.lease, entry.lease);
  if (entry.status.incarnation == hello.incarnation) {
    if (entry.opened == term_) return std::nullopt;
    record.waiting = entry.waiting;
  } else {
    // Even if its predecessor's lease is over: it may be granted another one until this is durable.
    record.waiting = true;
  }
  return record;
}

StreamId SessionTable::Open(StreamId stream, const SessionHello& hello,
                            const std::optional<schema::SessionRecord>& record) {
  const bool known = entries_.contains(hello.node);
  Entry& entry = entries_[hello.node];
  const StreamId replaced = entry.stream;
  if (replaced != 0) streams_.erase(replaced);
  SessionStatus& status = entry.status;
  if (known && status.incarnation != hello.incarnation) {
    entry.grant_from = std::max(entry.grant_from, status.belief_until);
    if (IsMutant(Mutant::kQ)) entry.grant_from = Instant();
    entry.waiting = true;
    status.applied_version = Version();
    status.keys = 0;
    status.bytes = 0;
  }
  status.incarnation = hello.incarnation;
  entry.opened = term_;
  if (record.has_value()) entry.lease = record->lease;
  entry.stream = stream;
  streams_[stream] = hello.node;
  status.connected = true;
  status.transfer_address = hello.transfer_address;
  status.data_address = hello.data_address;
  status.rdb_version = hello.rdb_version;
  return replaced;
}

bool SessionTable::Close(StreamId stream) {
  Entry* const entry = Find(stream);
  if (entry == nullptr) return false;
  entry->stream = 0;
  entry->status.connected = false;
  streams_.erase(stream);
  return true;
}

SessionTable::Renewal SessionTable::Renew(StreamId stream, const SessionRenewal& renewal,
                                          Instant now, [[maybe_unused]] bool carries_floors) {
  Entry* const entry = Find(stream);
  if (entry == nullptr) return Renewal::kForeign;
  entry->status.applied_version = renewal.applied_version;
  entry->status.keys = renewal.keys;
  entry->status.bytes = renewal.bytes;
  if (now < entry->grant_from) return Renewal::kWait;
  if (carries_floors && IsMutant(Mutant::kN)) return Renewal::kGranted;
  entry->status.belief_until = std::max(entry->status.belief_until, now + belief_);
  return Renewal::kGranted;
}

Instant SessionTable::GrantFrom(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? Instant() : found->second.grant_from;
}

std::optional<schema::SessionRecord> SessionTable::ToSettle(const NodeId& node) {
  const auto found = entries_.find(node);
  if (found == entries_.end() || !found->second.waiting) return std::nullopt;
  found->second.waiting = false;
  schema::SessionRecord record;
  record.incarnation = found->second.status.incarnation;
  record.term = term_;
  record.lease = found->second.lease;
  return record;
}

std::optional<NodeId> SessionTable::NodeOf(StreamId stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return std::nullopt;
  return found->second;
}

Version SessionTable::AppliedVersionOf(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? Version() : found->second.status.applied_version;
}

StreamId SessionTable::StreamOf(const NodeId& node) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? 0 : found->second.stream;
}

std::map<NodeId, SessionFact> SessionTable::Facts() const {
  std::map<NodeId, SessionFact> facts;
  for (const auto& [node, entry] : entries_) {
    const SessionStatus& status = entry.status;
    facts[node] = {status.connected, status.incarnation, status.transfer_address,
                   status.applied_version, status.belief_until};
  }
  return facts;
}

std::map<NodeId, SessionStatus> SessionTable::Statuses() const {
  std::map<NodeId, SessionStatus> statuses;
  for (const auto& [node, entry] : entries_) statuses[node] = entry.status;
  return statuses;
}

SessionTable::Entry* SessionTable::Find(StreamId stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &entries_.at(found->second);
}

}  // namespace warmring
