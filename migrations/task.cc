#include "migrations/task.h"

#include <algorithm>
#include <tuple>

namespace warmring {
namespace {

// All of a donor but what comes and goes with its sessions.
auto WorkOf(const PrepareTask::Donor& donor) {
  return std::tie(donor.source.donor, donor.source.ranges, donor.log_id);
}

}  // namespace

HashRangeSet RangesOf(const std::vector<TransferSource>& sources) {
  HashRangeSet ranges;
  for (const TransferSource& source : sources) ranges = ranges.Union(source.ranges);
  return ranges;
}

HashRangeSet RangesOf(const PrepareTask& task) {
  HashRangeSet ranges;
  for (const PrepareTask::Donor& donor : task.donors) ranges = ranges.Union(donor.source.ranges);
  return ranges;
}

bool IsSameWork(const PrepareTask& a, const PrepareTask& b) {
  return a.mode == b.mode && a.epoch == b.epoch && a.kept == b.kept &&
         std::equal(a.donors.begin(), a.donors.end(), b.donors.begin(), b.donors.end(),
                    [](const PrepareTask::Donor& x, const PrepareTask::Donor& y) {
                      return WorkOf(x) == WorkOf(y);
                    });
}

const PrepareTask* ChangesTaskOf(const Task& task) {
  const auto* prepare = std::get_if<PrepareTask>(&task.body);
  return prepare != nullptr && prepare->mode == PrepareTask::Mode::kChanges ? prepare : nullptr;
}

bool NeedsTransfer(const Task& task) {
  return std::holds_alternative<WarmTask>(task.body) ||
         std::holds_alternative<VerifyTask>(task.body) || ChangesTaskOf(task) != nullptr;
}

}  // namespace warmring
