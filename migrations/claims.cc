#include "migrations/claims.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "migrations/handover.h"

namespace warmring {
namespace {

const NodeReports* Find(const Reports& reports, const NodeId& node) {
  const auto it = reports.find(node);
  return it == reports.end() ? nullptr : &it->second;
}

// The acknowledgement of the present fence, if `donor` has given it.
const FenceAck* AckOf(const MigrationRecord& record, const Reports& reports, const NodeId& donor) {
  const NodeReports* node = Find(reports, donor);
  if (node == nullptr || !node->fence.has_value()) return nullptr;
  return node->fence->floor.Next() == record.wave_epoch ? &*node->fence : nullptr;
}

bool LeaseExpired(const MigrationRecord& record, const NodeId& donor) {
  return std::any_of(record.evidence.begin(), record.evidence.end(),
                     [&](const FenceEvidence& evidence) {
                       return evidence.donor == donor && evidence.kind == EvidenceKind::kLease;
                     });
}

bool Answers(const PreparedReport& report, const PrepareTask& task) {
  if (report.epoch != task.epoch || report.mode != task.mode) return false;
  if (task.mode == PrepareTask::Mode::kPurge) return true;
  if (report.log_ids.size() != task.donors.size()) return false;
  const bool changes = task.mode == PrepareTask::Mode::kChanges;
  if (changes && report.applied.size() != task.donors.size()) return false;
  for (size_t i = 0; i < task.donors.size(); ++i) {
    if (report.log_ids[i] != task.donors[i].log_id) return false;
    if (changes && report.applied[i] < task.donors[i].watermark) return false;
  }
  return true;
}

PrepareTask::Mode ModeOf(const MigrationRecord& record, const std::vector<RangeMove>& moves,
                         const Reports& reports) {
  const bool undo = record.stage == Stage::kUndoFencing;
  for (const RangeMove& move : moves) {
    if (LeaseExpired(record, move.from)) return PrepareTask::Mode::kPurge;
    if (undo && !AckOf(record, reports, move.from)->dirty_complete) {
      return PrepareTask::Mode::kPurge;
    }
  }
  return undo ? PrepareTask::Mode::kDirty : PrepareTask::Mode::kChanges;
}

}  // namespace

Claim AllConnected(const std::vector<RangeMove>& moves, const Sessions& sessions) {
  std::set<NodeId> missing;
  for (const RangeMove& move : moves) {
    for (const NodeId& node : {move.from, move.to}) {
      const auto session = sessions.find(node);
      if (session == sessions.end() || !session->second.connected) missing.insert(node);
    }
  }
  if (missing.empty()) return {true, ""};
  return {false, fmt::format("waiting for a session of {}: is its agent running?",
                             absl::StrJoin(missing, ", "))};
}

Claim AllWarmed(const MigrationRecord& record, const Reports& reports, const Sessions& sessions) {
  const std::vector<RangeMove> moves = RemainingMoves(record);
  if (Claim connected = AllConnected(moves, sessions); !connected.holds) return connected;
  Claim claim = {true, ""};
  for (const auto& [recipient, unused] : MovesByRecipient(moves)) {
    const Version applied = sessions.at(recipient).applied_version;
    if (applied < record.prepared_version) {
      return {false, fmt::format("waiting for {} to apply version {}: it has version {}", recipient,
                                 record.prepared_version.value, applied.value)};
    }
    const NodeReports* node = Find(reports, recipient);
    const bool warm =
        node != nullptr && node->warm.has_value() && node->warm->purged && node->warm->caught_up;
    claim.holds = claim.holds && warm;
  }
  return claim;
}

std::vector<NodeId> OpenDonors(const MigrationRecord& record, const Reports& reports) {
  std::vector<NodeId> open;
  for (const auto& [donor, unused] : RangesByDonor(HandoverMoves(record))) {
    if (AckOf(record, reports, donor) == nullptr && !LeaseExpired(record, donor)) {
      open.push_back(donor);
    }
  }
  return open;
}

Claim DonorsClosed(const MigrationRecord& record, const Reports& reports) {
  const std::vector<NodeId> open = OpenDonors(record, reports);
  if (open.empty()) return {true, ""};
  return {false, fmt::format("{} did not acknowledge the fence", absl::StrJoin(open, ", "))};
}

std::vector<FenceEvidence> EvidenceOf(const MigrationRecord& record, const Reports& reports) {
  std::vector<FenceEvidence> evidence;
  for (const auto& [donor, unused] : RangesByDonor(HandoverMoves(record))) {
    // A lease once found expired has decided how the recipients prepare: a late acknowledgement
    // does not make the commit clean.
    if (LeaseExpired(record, donor)) {
      evidence.push_back({donor, EvidenceKind::kLease, {}, "", 0, false});
    } else if (const FenceAck* ack = AckOf(record, reports, donor)) {
      evidence.push_back({donor, EvidenceKind::kAck, Find(reports, donor)->incarnation, ack->log_id,
                          ack->watermark, ack->dirty_complete});
    }
  }
  return evidence;
}

std::optional<PrepareTask> PrepareTaskOf(const MigrationRecord& record, const NodeId& recipient,
                                         const Reports& reports, const Sessions& sessions) {
  std::vector<RangeMove> moves = HandoverMoves(record);
  std::erase_if(moves, [&](const RangeMove& move) { return move.to != recipient; });
  for (const RangeMove& move : moves) {
    if (AckOf(record, reports, move.from) == nullptr && !LeaseExpired(record, move.from)) {
      return std::nullopt;
    }
  }
  PrepareTask task;
  task.mode = ModeOf(record, moves, reports);
  task.epoch = record.wave_epoch;
  task.limits = record.plan.limits;
  for (const RangeMove& move : moves) {
    PrepareTask::Donor donor;
    donor.source = {move.from, "", move.ranges};
    const auto session = sessions.find(move.from);
    if (session != sessions.end() && session->second.connected) {
      donor.source.transfer_address = session->second.transfer_address;
    }
    if (const FenceAck* ack = AckOf(record, reports, move.from)) {
      donor.log_id = ack->log_id;
      donor.watermark = ack->watermark;
    }
    task.donors.push_back(std::move(donor));
  }
  return task;
}

Claim RecipientsReady(const MigrationRecord& record, const Reports& reports,
                      const Sessions& sessions) {
  std::vector<NodeId> late;
  for (const auto& [recipient, unused] : MovesByRecipient(HandoverMoves(record))) {
    const std::optional<PrepareTask> task = PrepareTaskOf(record, recipient, reports, sessions);
    const NodeReports* node = Find(reports, recipient);
    const bool ready = task.has_value() && node != nullptr && node->prepared.has_value() &&
                       Answers(*node->prepared, *task);
    if (!ready) late.push_back(recipient);
  }
  if (late.empty()) return {true, ""};
  return {false, fmt::format("{} did not report to be complete", absl::StrJoin(late, ", "))};
}

VerifySum SumOfVerification(const MigrationRecord& record, const Reports& reports) {
  VerifySum sum;
  sum.done = true;
  for (const auto& [recipient, unused] : MovesByRecipient(RemainingMoves(record))) {
    const NodeReports* node = Find(reports, recipient);
    if (node == nullptr || !node->verify.has_value()) {
      sum.done = false;
      continue;
    }
    sum.compared += node->verify->compared;
    sum.mismatched += node->verify->mismatched;
    sum.done = sum.done && node->verify->done;
  }
  return sum;
}

}  // namespace warmring
