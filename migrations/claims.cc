#include "migrations/claims.h"

#include <algorithm>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "core/base/mutant.h"

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

// The evidence by which `donor` was passed over, or null.
const FenceEvidence* PassedOver(const MigrationRecord& record, const NodeId& donor) {
  for (const FenceEvidence& evidence : record.evidence) {
    if (evidence.donor == donor && evidence.kind != EvidenceKind::kAck) return &evidence;
  }
  return nullptr;
}

bool Answers(const PreparedReport& report, const PrepareTerms& terms, Epoch epoch) {
  if (report.epoch != epoch || report.mode != terms.mode) return false;
  const bool same_donors = std::equal(
      report.donors.begin(), report.donors.end(), terms.donors.begin(), terms.donors.end(),
      [](const NodeId& node, const PrepareTerms::Donor& donor) { return node == donor.node; });
  if (!same_donors) return false;
  if (terms.mode == PrepareTask::Mode::kPurge) return true;
  if (report.log_ids.size() != terms.donors.size()) return false;
  const bool changes = terms.mode == PrepareTask::Mode::kChanges;
  if (changes && report.applied.size() != terms.donors.size()) return false;
  for (size_t i = 0; i < terms.donors.size(); ++i) {
    if (report.log_ids[i] != terms.donors[i].log_id) return false;
    if (changes && report.applied[i] < terms.donors[i].watermark) return false;
  }
  return true;
}

}  // namespace

Claim AllConnected(const std::set<NodeId>& nodes, const Sessions& sessions) {
  std::vector<NodeId> missing;
  for (const NodeId& node : nodes) {
    const auto session = sessions.find(node);
    if (session == sessions.end() || !session->second.connected) missing.push_back(node);
  }
  if (missing.empty()) return {true, ""};
  return {false, fmt::format("waiting for a session of {}: is its agent running?",
                             absl::StrJoin(missing, ", "))};
}

Claim AllWarmed(const MigrationRecord& record, const Reports& reports, const Sessions& sessions) {
  const std::vector<Flow> flows = RemainingFlows(record);
  std::set<NodeId> nodes = RecipientsOf(flows);
  nodes.merge(DonorsOf(LiveFlows(record, flows)));
  if (Claim connected = AllConnected(nodes, sessions); !connected.holds) return connected;
  Claim claim = {true, ""};
  // A recipient, for the version makes it one. A donor, for it closes what its map files under the
  // ranges of the fence: by an older one, keys of an override that has ended would be elsewhere.
  for (const NodeId& node : nodes) {
    const Version applied = sessions.at(node).applied_version;
    if (applied < record.prepared_version) {
      return {false, fmt::format("waiting for {} to apply version {}: it has version {}", node,
                                 record.prepared_version.value, applied.value)};
    }
  }
  for (const NodeId& recipient : RecipientsOf(LiveFlows(record, flows))) {
    const NodeReports* node = Find(reports, recipient);
    const bool warm =
        node != nullptr && node->warm.has_value() && node->warm->purged && node->warm->caught_up;
    claim.holds = claim.holds && warm;
  }
  return claim;
}

bool IsPassedOver(const MigrationRecord& record, const NodeId& donor) {
  return PassedOver(record, donor) != nullptr;
}

std::vector<NodeId> OpenDonors(const MigrationRecord& record, const Reports& reports) {
  std::vector<NodeId> open;
  for (const NodeId& donor : DonorsOf(HandoverFlows(record))) {
    if (AckOf(record, reports, donor) == nullptr && !IsPassedOver(record, donor)) {
      open.push_back(donor);
    }
  }
  return open;
}

Claim DonorsClosed(const MigrationRecord& record, const Reports& reports) {
  const std::vector<NodeId> open = OpenDonors(record, reports);
  if (open.empty() || IsMutant(Mutant::kA)) return {true, ""};
  return {false, fmt::format("{} did not acknowledge the fence", absl::StrJoin(open, ", "))};
}

std::vector<FenceEvidence> EvidenceOf(const MigrationRecord& record, const Reports& reports) {
  std::vector<FenceEvidence> evidence;
  for (const NodeId& donor : DonorsOf(HandoverFlows(record))) {
    // To have been passed over has decided how the recipients prepare: a late acknowledgement does
    // not make the commit clean.
    if (const FenceEvidence* passed_over = PassedOver(record, donor)) {
      evidence.push_back(*passed_over);
    } else if (const FenceAck* ack = AckOf(record, reports, donor)) {
      evidence.push_back({donor, EvidenceKind::kAck, Find(reports, donor)->incarnation, ack->log_id,
                          ack->watermark, ack->dirty_complete});
    }
  }
  return evidence;
}

std::vector<PrepareTerms> PrepareTermsOf(const MigrationRecord& record, const NodeId& recipient,
                                         const Reports& reports) {
  const bool undo = record.stage == Stage::kUndoFencing;
  std::map<PrepareTask::Mode, PrepareTerms> by_mode;
  for (const Flow& flow : HandoverFlows(record)) {
    if (flow.to != recipient) continue;
    const FenceAck* ack = AckOf(record, reports, flow.from);
    const bool passed_over = IsPassedOver(record, flow.from);
    if (ack == nullptr && !passed_over) return {};
    // What such a donor still says changes nothing about how its recipients prepare.
    const bool given_up = passed_over || IsDead(record, flow.from);
    const bool is_lost = given_up || (undo && !ack->dirty_complete);
    const PrepareTask::Mode mode = is_lost ? PrepareTask::Mode::kPurge
                                   : undo  ? PrepareTask::Mode::kDirty
                                           : PrepareTask::Mode::kChanges;
    PrepareTerms& terms = by_mode[mode];
    terms.mode = mode;
    terms.donors.push_back({flow.from, given_up ? "" : ack->log_id, given_up ? 0 : ack->watermark});
  }
  std::vector<PrepareTerms> all;
  for (auto& [mode, terms] : by_mode) all.push_back(std::move(terms));
  return all;
}

bool IsCopyVoid(const MigrationRecord& record, const NodeId& donor) {
  return record.stage == Stage::kFencing && IsPassedOver(record, donor);
}

bool IsUndoTriedAgain(const MigrationRecord& record) {
  return record.waves_committed < record.preview.waves || record.attempt + 1 < kMaxUndoAttempts;
}

Claim RecipientsReady(const MigrationRecord& record, const Reports& reports) {
  if (IsMutant(Mutant::kA)) return {true, ""};
  std::vector<NodeId> late;
  for (const NodeId& recipient : RecipientsOf(HandoverFlows(record))) {
    const std::vector<PrepareTerms> all = PrepareTermsOf(record, recipient, reports);
    const NodeReports* node = Find(reports, recipient);
    const bool ready = !all.empty() && node != nullptr &&
                       std::all_of(all.begin(), all.end(), [&](const PrepareTerms& terms) {
                         const auto report = node->prepared.find(terms.mode);
                         return report != node->prepared.end() &&
                                Answers(report->second, terms, record.wave_epoch);
                       });
    if (!ready) late.push_back(recipient);
  }
  if (late.empty()) return {true, ""};
  return {false, fmt::format("{} did not report to be complete", absl::StrJoin(late, ", "))};
}

VerifySum SumOfVerification(const MigrationRecord& record, const Reports& reports) {
  VerifySum sum;
  sum.done = true;
  for (const NodeId& recipient : RecipientsOf(LiveFlows(record, RemainingFlows(record)))) {
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
