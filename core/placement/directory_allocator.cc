#include "core/placement/directory_allocator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "core/base/hash_range.h"
#include "core/base/status_macros.h"
#include "core/hashing/key_hash.h"
#include "core/placement/directory_board.h"
#include "core/placement/directory_steps.h"
#include "core/placement/directory_targets.h"

namespace warmring {
namespace {

constexpr uint64_t kMaxHeat = uint64_t{1} << 40;

// One reallocation: the nodes after it sorted by id, the board, and how to find seats.
class Job {
 public:
  Job(const DirectoryShape& shape, std::vector<DirectoryNode> nodes,
      const ReallocateOptions& options)
      : shape_(shape), nodes_(std::move(nodes)), options_(&options) {
    std::sort(nodes_.begin(), nodes_.end(),
              [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
  }

  // `base` is null for a new directory.
  absl::StatusOr<Directory> Run(const Directory* base) {
    Seat(base);
    if (base != nullptr) Adopt(*base);
    RETURN_IF_ERROR(ApplyCaps());
    RETURN_IF_ERROR(ApplyMoves());
    RETURN_IF_ERROR(ApplyPins());
    RETURN_IF_ERROR(EvictCrowded());
    RETURN_IF_ERROR(SetTargets());
    if (options_->heat.empty()) {
      BalanceSlots();
    } else {
      RETURN_IF_ERROR(BalanceHeat());
    }
    return Result();
  }

 private:
  void Seat(const Directory* base);
  void Adopt(const Directory& base);
  absl::Status ApplyCaps();
  absl::Status ApplyMoves();
  absl::Status ApplyPins();
  absl::Status PinSeat(const ReallocateOptions::Pin& pin);
  absl::Status EvictCrowded();
  std::optional<uint32_t> MostCrowded(uint32_t bucket, uint32_t domain) const;
  absl::Status CheckFeasible(const TargetProblem& problem) const;
  absl::Status SetTargets();
  void BalanceSlots();
  absl::Status BalanceHeat();
  absl::Status CheckCaps() const;
  absl::StatusOr<Directory> Result() const;

  absl::StatusOr<SeatIndex> SeatOf(std::string_view field, std::string_view id) const;
  absl::Status CheckBucket(std::string_view field, uint32_t bucket) const;
  Board& board() { return *board_; }

  DirectoryShape shape_;
  std::vector<DirectoryNode> nodes_;
  const ReallocateOptions* options_;
  std::optional<Board> board_;
  std::map<std::string_view, SeatIndex> seat_of_;   // by id, views into nodes_
  std::map<std::string_view, uint32_t> domain_of_;  // named ones only
  std::vector<uint64_t> domain_caps_;
  std::vector<Ratio> shares_;  // of slots, by seat
};

void Job::Seat(const Directory* base) {
  const DomainNumbers domains = NumberDomains(nodes_);
  const TargetProblem natural = NaturalTargets(shape_, nodes_);
  std::vector<DirectorySeat> seats;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    DirectorySeat seat;
    seat.id = nodes_[i].id;
    seat.order = NodeOrderKey(seat.id);
    seat.weight = nodes_[i].weight_milli;
    seat.domain = domains.of_node[i];
    seat.node = i;
    seat.cap = shape_.buckets();
    seat.added = base == nullptr ||
                 !std::binary_search(
                     base->nodes.begin(), base->nodes.end(), nodes_[i],
                     [](const DirectoryNode& a, const DirectoryNode& b) { return a.id < b.id; });
    seats.push_back(std::move(seat));
    if (!nodes_[i].domain.empty()) domain_of_[nodes_[i].domain] = domains.of_node[i];
  }
  std::sort(seats.begin(), seats.end(), [](const DirectorySeat& a, const DirectorySeat& b) {
    return std::tie(a.order, a.id) < std::tie(b.order, b.id);
  });
  for (SeatIndex i = 0; i < seats.size(); ++i) seat_of_[nodes_[seats[i].node].id] = i;
  domain_caps_ = natural.domain_caps;
  std::vector<uint32_t> depths;
  for (uint64_t cap : domain_caps_) depths.push_back(static_cast<uint32_t>(cap >> shape_.bits));
  const auto ranks = static_cast<uint32_t>(natural.slots >> shape_.bits);
  board_.emplace(shape_.buckets(), ranks, std::move(seats), std::move(depths));
}

// What stays of the base; where fewer ranks than before have a node, they close up.
void Job::Adopt(const Directory& base) {
  std::vector<SeatIndex> seat_of;
  for (const DirectoryNode& node : base.nodes) {
    const auto at = seat_of_.find(node.id);
    seat_of.push_back(at == seat_of_.end() ? Board::kNoSeat : at->second);
  }
  const bool close_up = board().ranks() < shape_.ranks;
  for (uint32_t bucket = 0; bucket < shape_.buckets(); ++bucket) {
    uint32_t next = 0;
    for (uint32_t r = 0; r < shape_.ranks; ++r) {
      const uint32_t node = base.OwnerOf(bucket, r);
      const SeatIndex seat = node == Directory::kNoNode ? Board::kNoSeat : seat_of[node];
      if (seat == Board::kNoSeat) continue;
      board().Put(bucket, close_up ? next++ : r, seat);
    }
  }
}

absl::StatusOr<SeatIndex> Job::SeatOf(std::string_view field, std::string_view id) const {
  const auto at = seat_of_.find(id);
  if (at != seat_of_.end()) return at->second;
  return absl::InvalidArgumentError(
      fmt::format("{}: there is no node '{}' after this change", field, Printable(id)));
}

absl::Status Job::CheckBucket(std::string_view field, uint32_t bucket) const {
  if (bucket < shape_.buckets()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: there is no bucket {}: use 0 to {}", field, bucket, shape_.buckets() - 1));
}

absl::Status Job::ApplyCaps() {
  for (const ReallocateOptions::Cap& cap : options_->node_caps) {
    ASSIGN_OR_RETURN(const SeatIndex seat, SeatOf("node_caps", cap.name));
    board().seat(seat).cap = std::min(board().seat(seat).cap, cap.slots);
  }
  for (const ReallocateOptions::Cap& cap : options_->domain_caps) {
    const auto at = domain_of_.find(cap.name);
    if (at == domain_of_.end()) {
      return absl::InvalidArgumentError(
          fmt::format("domain_caps: no node is in domain '{}'", Printable(cap.name)));
    }
    domain_caps_[at->second] = std::min(domain_caps_[at->second], cap.slots);
  }
  return absl::OkStatus();
}

absl::Status Job::ApplyMoves() {
  for (const ReallocateOptions::BucketMove& move : options_->moves) {
    RETURN_IF_ERROR(CheckBucket("moves", move.bucket));
    ASSIGN_OR_RETURN(const SeatIndex from, SeatOf("moves", move.from));
    ASSIGN_OR_RETURN(const SeatIndex to, SeatOf("moves", move.to));
    uint32_t rank = 0;
    while (rank < board().ranks() && board().At(move.bucket, rank) != from) ++rank;
    if (rank == board().ranks()) {
      return absl::InvalidArgumentError(
          fmt::format("moves: '{}' does not hold bucket {}", Printable(move.from), move.bucket));
    }
    if (board().IsFixed(move.bucket, rank)) {
      return absl::InvalidArgumentError(
          fmt::format("moves: bucket {} moves twice: its replica went to '{}' already", move.bucket,
                      Printable(move.from)));
    }
    if (!board().CanHold(move.bucket, rank, to)) {
      return absl::InvalidArgumentError(
          fmt::format("moves: bucket {} may not go to '{}': it or its domain holds a replica",
                      move.bucket, Printable(move.to)));
    }
    board().Put(move.bucket, rank, to);
    board().Fix(move.bucket, rank);
  }
  return absl::OkStatus();
}

absl::Status Job::ApplyPins() {
  // Those with a seat come first: what else is in their buckets may have to make room.
  for (const ReallocateOptions::Pin& pin : options_->pins) {
    RETURN_IF_ERROR(CheckBucket("pins", pin.bucket));
    if (pin.seat.has_value()) RETURN_IF_ERROR(PinSeat(pin));
  }
  for (const ReallocateOptions::Pin& pin : options_->pins) {
    if (pin.seat.has_value()) continue;
    for (uint32_t r = 0; r < board().ranks(); ++r) {
      if (board().At(pin.bucket, r) != Board::kNoSeat) board().Fix(pin.bucket, r);
    }
  }
  return absl::OkStatus();
}

absl::Status Job::PinSeat(const ReallocateOptions::Pin& pin) {
  const uint32_t bucket = pin.bucket;
  const uint32_t rank = pin.seat->rank;
  ASSIGN_OR_RETURN(const SeatIndex seat, SeatOf("pins", pin.seat->node));
  if (rank >= board().ranks()) {
    return absl::InvalidArgumentError(fmt::format("pins: bucket {} has no rank {}: use 0 to {}",
                                                  bucket, rank, board().ranks() - 1));
  }
  const auto contradiction = [&] {
    return absl::InvalidArgumentError(
        fmt::format("pins: bucket {} rank {} cannot be pinned to '{}': another pin or move of the "
                    "bucket has the slot, the node or its domain",
                    bucket, rank, Printable(pin.seat->node)));
  };
  if (board().At(bucket, rank) == seat) {
    board().Fix(bucket, rank);
    return absl::OkStatus();
  }
  if (board().IsFixed(bucket, rank)) return contradiction();
  // The node is taken off its other rank, and others of its domain make room, last ranks first.
  const uint32_t domain = board().seat(seat).domain;
  for (uint32_t r = 0; r < board().ranks(); ++r) {
    if (board().At(bucket, r) != seat) continue;
    if (board().IsFixed(bucket, r)) return contradiction();
    board().SwapRanks(bucket, r, rank);
  }
  for (uint32_t r = board().ranks(); r-- > 0 && !board().CanHold(bucket, rank, seat);) {
    const SeatIndex other = board().At(bucket, r);
    if (r == rank || other == Board::kNoSeat || board().IsFixed(bucket, r)) continue;
    if (board().seat(other).domain == domain) board().Put(bucket, r, Board::kNoSeat);
  }
  if (!board().CanHold(bucket, rank, seat)) return contradiction();
  board().Put(bucket, rank, seat);
  board().Fix(bucket, rank);
  return absl::OkStatus();
}

// Empties slots until no domain is in a bucket more often than it may.
absl::Status Job::EvictCrowded() {
  for (uint32_t bucket = 0; bucket < board().buckets(); ++bucket) {
    for (uint32_t r = 0; r < board().ranks(); ++r) {
      while (board().At(bucket, r) != Board::kNoSeat &&
             !board().CanHold(bucket, r, board().At(bucket, r))) {
        const SeatIndex seat = board().At(bucket, r);
        const std::optional<uint32_t> evicted = MostCrowded(bucket, board().seat(seat).domain);
        if (evicted.has_value()) {
          board().Put(bucket, *evicted, Board::kNoSeat);
          continue;
        }
        if (!shape_.strict) break;
        return absl::InvalidArgumentError(
            fmt::format("pins: bucket {} is pinned with two replicas in one domain, that of '{}': "
                        "take back the pin or use the best-effort rule",
                        bucket, Printable(board().seat(seat).id)));
      }
    }
  }
  return absl::OkStatus();
}

// Of the bucket's slots that are of this domain and not fixed, that of the node which holds most
// for its weight; of equal ones the last.
std::optional<uint32_t> Job::MostCrowded(uint32_t bucket, uint32_t domain) const {
  std::optional<uint32_t> most;
  for (uint32_t r = 0; r < board_->ranks(); ++r) {
    const SeatIndex at = board_->At(bucket, r);
    if (at == Board::kNoSeat || board_->seat(at).domain != domain) continue;
    if (board_->IsFixed(bucket, r)) continue;
    if (most.has_value()) {
      const DirectorySeat& a = board_->seat(at);
      const DirectorySeat& b = board_->seat(board_->At(bucket, *most));
      if (a.owned * b.weight < b.owned * a.weight) continue;
    }
    most = r;
  }
  return most;
}

absl::Status Job::CheckFeasible(const TargetProblem& problem) const {
  std::vector<uint64_t> room(problem.domain_caps.size(), 0);
  std::vector<uint64_t> least(problem.domain_caps.size(), 0);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const TargetProblem::Node& node = problem.nodes[i];
    if (node.least > node.cap) {
      return absl::InvalidArgumentError(
          fmt::format("node_caps: '{}' may hold {} slots, and {} are pinned to it: raise the cap",
                      Printable(board_->seats()[i].id), node.cap, node.least));
    }
    room[node.domain] += node.cap;
    least[node.domain] += node.least;
  }
  uint64_t total = 0;
  for (size_t d = 0; d < room.size(); ++d) {
    if (least[d] > problem.domain_caps[d]) {
      return absl::InvalidArgumentError(
          fmt::format("domain_caps: a domain may hold {} slots, and {} are pinned in it: raise the "
                      "cap",
                      problem.domain_caps[d], least[d]));
    }
    total += std::min(room[d], problem.domain_caps[d]);
  }
  if (total < problem.slots) {
    return absl::InvalidArgumentError(
        fmt::format("caps: the nodes have room for {} slots of {}: raise the caps or add nodes",
                    total, problem.slots));
  }
  return absl::OkStatus();
}

absl::Status Job::SetTargets() {
  TargetProblem problem;
  problem.slots = uint64_t{board().buckets()} * board().ranks();
  problem.domain_caps = domain_caps_;
  std::vector<uint64_t> fixed(board().seats().size(), 0);
  for (uint32_t bucket = 0; bucket < board().buckets(); ++bucket) {
    for (uint32_t r = 0; r < board().ranks(); ++r) {
      if (board().IsFixed(bucket, r)) ++fixed[board().At(bucket, r)];
    }
  }
  for (SeatIndex i = 0; i < board().seats().size(); ++i) {
    const DirectorySeat& seat = board().seat(i);
    problem.nodes.push_back({seat.weight, seat.domain, seat.cap, fixed[i], seat.owned});
  }
  RETURN_IF_ERROR(CheckFeasible(problem));
  shares_ = FillShares(problem);
  const std::vector<uint64_t> targets = RoundShares(problem, shares_);
  for (SeatIndex i = 0; i < targets.size(); ++i) board().seat(i).target = targets[i];
  board().SetRankTargets(SplitByRank(targets, board().rank_owned(), board().ranks()));
  return absl::OkStatus();
}

void Job::BalanceSlots() {
  PlaceForced(board());
  switch (options_->balance) {
    case ReallocateOptions::Balance::kAll:
      Take(board(), false);
      Exchange(board());
      BalanceRanks(board());
      break;
    case ReallocateOptions::Balance::kAddedOnly:
      Take(board(), true);
      break;
    case ReallocateOptions::Balance::kNothing:
      break;
  }
}

absl::Status Job::BalanceHeat() {
  if (options_->heat.size() != shape_.buckets()) {
    return absl::InvalidArgumentError(
        fmt::format("heat: has {} entries: give one for each of the {} buckets",
                    options_->heat.size(), shape_.buckets()));
  }
  HeatTargets heat{options_->heat, {}, options_->heat_tolerance_ppm};
  uint64_t total = 0;
  for (uint32_t bucket = 0; bucket < heat.of_bucket.size(); ++bucket) {
    if (heat.of_bucket[bucket] > kMaxHeat) {
      return absl::InvalidArgumentError(fmt::format("heat: bucket {} has {}: use at most {}",
                                                    bucket, heat.of_bucket[bucket], kMaxHeat));
    }
    total += heat.of_bucket[bucket];
  }
  for (const Ratio& share : shares_) {
    using Wide = HashMeasure;
    heat.of_seat.push_back(static_cast<uint64_t>(Wide{share.numerator} * total /
                                                 (Wide{share.denominator} << shape_.bits)));
  }
  PlaceForcedByHeat(board(), heat);
  if (options_->balance != ReallocateOptions::Balance::kNothing) {
    MoveByHeat(board(), heat, options_->balance == ReallocateOptions::Balance::kAddedOnly);
  }
  return absl::OkStatus();
}

absl::Status Job::CheckCaps() const {
  std::vector<uint64_t> of_domain(domain_caps_.size(), 0);
  for (const DirectorySeat& seat : board_->seats()) {
    of_domain[seat.domain] += seat.owned;
    if (seat.owned <= seat.cap) continue;
    return absl::InvalidArgumentError(
        fmt::format("node_caps: '{}' may hold {} slots, and keeps {} under these pins, domains and "
                    "this kind of balance: raise the cap or let more move",
                    Printable(seat.id), seat.cap, seat.owned));
  }
  for (const auto& [name, domain] : domain_of_) {
    if (of_domain[domain] <= domain_caps_[domain]) continue;
    return absl::InvalidArgumentError(
        fmt::format("domain_caps: '{}' may hold {} slots, and keeps {} under these pins, caps and "
                    "this kind of balance: raise the cap or let more move",
                    Printable(name), domain_caps_[domain], of_domain[domain]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Directory> Job::Result() const {
  RETURN_IF_ERROR(CheckCaps());
  Directory result{shape_, nodes_, std::vector<uint32_t>(shape_.slots(), Directory::kNoNode)};
  for (uint32_t bucket = 0; bucket < shape_.buckets(); ++bucket) {
    for (uint32_t r = 0; r < board_->ranks(); ++r) {
      result.owner[size_t{bucket} * shape_.ranks + r] = board_->seat(board_->At(bucket, r)).node;
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Directory> Allocate(const DirectoryShape& shape,
                                   const std::vector<DirectoryNode>& nodes) {
  RETURN_IF_ERROR(ValidateDirectoryInput(shape, nodes));
  RETURN_IF_ERROR(ValidateDomains(shape, nodes));
  const ReallocateOptions options;
  return Job(shape, nodes, options).Run(nullptr);
}

absl::StatusOr<Directory> Reallocate(const Directory& base,
                                     const std::vector<DirectoryNode>& nodes_after,
                                     const ReallocateOptions& options) {
  RETURN_IF_ERROR(ValidateDirectoryInput(base.shape, nodes_after));
  RETURN_IF_ERROR(ValidateDomains(base.shape, nodes_after));
  return Job(base.shape, nodes_after, options).Run(&base);
}

}  // namespace warmring
