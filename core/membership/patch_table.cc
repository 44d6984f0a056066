// The table of a membership made from that of the one before it: only the rows that say something
// else are written.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/membership/membership.h"

namespace warmring {
namespace {

using TenureKey = std::tuple<Epoch, NodeIndex, NodeIndex>;

TenureKey KeyOf(const Membership::Tenure& tenure) {
  return {tenure.epoch, tenure.pending.value_or(kNoNode), tenure.previous.value_or(kNoNode)};
}

// The ranges of `a` and `b`, which are in order.
std::vector<uint32_t> Merged(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> merged;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  return merged;
}

}  // namespace

void Membership::PatchTable(const Membership& base, const std::vector<uint32_t>& changed) {
  // A range that is, or was, part of a move may be held in another way now.
  std::vector<uint32_t> moving;
  if (!data_.moves.empty() || !base.data_.moves.empty()) {
    for (size_t i = 0; i < data_.ranges.size(); ++i) {
      if (MoveAt(i) >= 0 || base.MoveAt(i) >= 0) moving.push_back(static_cast<uint32_t>(i));
    }
  }
  std::vector<uint32_t> rows;
  std::vector<Tenure> row_tenures;
  absl::flat_hash_map<TenureKey, uint32_t> index;
  for (const uint32_t row : Merged(changed, moving)) {
    const Tenure tenure = TenureOf(data_.ranges[row].epoch, MoveAt(row));
    const bool is_changed = std::binary_search(changed.begin(), changed.end(), row);
    if (!is_changed && tenure == base.tenures_[base.table_.RowAt(row)[1]]) continue;
    rows.push_back(row);
    row_tenures.push_back(tenure);
    index.try_emplace(KeyOf(tenure), UINT32_MAX);
  }
  if (base.tenures_.size() + index.size() > 2 * base.tenures_in_use_ + 1000) {
    CompileTable(&base.table_);
    return;
  }
  tenures_ = base.tenures_;
  tenures_in_use_ = base.tenures_in_use_;
  for (size_t i = 0; i < tenures_.size(); ++i) {
    const auto wanted = index.find(KeyOf(tenures_[i]));
    if (wanted != index.end()) wanted->second = static_cast<uint32_t>(i);
  }
  const auto nobody = static_cast<uint32_t>(data_.nodes.size());
  const uint32_t width = kRowFollowers + data_.spec.replication - 1;
  std::vector<uint32_t> values;
  values.reserve(rows.size() * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    uint32_t& tenure = index[KeyOf(row_tenures[i])];
    if (tenure == UINT32_MAX) {
      tenure = static_cast<uint32_t>(tenures_.size());
      tenures_.push_back(row_tenures[i]);
    }
    values.push_back(data_.ranges[rows[i]].owner);
    values.push_back(tenure);
    for (const NodeIndex follower : FollowersAt(rows[i])) {
      values.push_back(follower == kNoNode ? nobody : follower);
    }
  }
  table_ = base.table_.WithRows(rows, values, width);
}

}  // namespace warmring
