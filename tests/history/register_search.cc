#include "tests/history/register_search.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace warmring::history {
namespace {

constexpr int64_t kOpen = INT64_MAX;
// What the register holds before anything is known of it. No operation has this value.
constexpr uint32_t kUnknownValue = UINT32_MAX;

// A call or a return in the order of time, linked so that operations that have taken effect can be
// lifted out and put back.
struct Entry {
  size_t op = 0;
  bool is_return = false;
  int previous = -1;
  int next = -1;
};

class Search {
 public:
  Search(std::vector<RegisterOp> ops, size_t max_steps)
      : ops_(std::move(ops)), max_steps_(max_steps), done_((ops_.size() + 63) / 64, 0) {
    Link();
    LinkOpenClears();
    for (const RegisterOp& op : ops_) {
      if (op.t1 != kOpen) ++required_;
      if (op.kind == RegisterOp::Kind::kWrite) written_.insert(op.value);
    }
  }

  Linearizable Run() {
    int at = entries_[kHead].next;
    uint32_t state = kUnknownValue;
    int branch = 0;
    while (required_ > 0) {
      if (++steps_ > max_steps_) return Linearizable::kUndecided;
      // At a return nothing more can come before it, and behind the last entry nothing at all.
      const bool dead_end = at == kHead || entries_[static_cast<size_t>(at)].is_return;
      if (dead_end) {
        if (taken_.empty()) return Linearizable::kNo;
        const Taken last = taken_.back();
        taken_.pop_back();
        Restore(last.entry);
        state = last.state;
        at = last.entry;
        branch = last.branch + 1;
        continue;
      }
      const size_t op = entries_[static_cast<size_t>(at)].op;
      uint32_t next_state = state;
      if (HasTurn(op) && Apply(ops_[op], branch, next_state) && Remember(op, next_state)) {
        taken_.push_back({at, state, branch});
        Lift(at);
        state = next_state;
        at = entries_[kHead].next;
        branch = 0;
        continue;
      }
      if (ops_[op].kind == RegisterOp::Kind::kMayClear && branch == 0) {
        branch = 1;
        continue;
      }
      at = entries_[static_cast<size_t>(at)].next;
      branch = 0;
    }
    return Linearizable::kYes;
  }

 private:
  static constexpr int kHead = 0;
  struct Taken {
    int entry = 0;
    uint32_t state = 0;
    int branch = 0;
  };

  void Link() {
    struct Moment {
      int64_t time = 0;
      bool is_return = false;
      size_t op = 0;
    };
    std::vector<Moment> moments;
    for (size_t i = 0; i < ops_.size(); ++i) {
      moments.push_back({ops_[i].t0, false, i});
      if (ops_[i].t1 != kOpen) moments.push_back({ops_[i].t1, true, i});
    }
    // At one instant calls come first: the operations overlap then, which accuses nobody.
    std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
      if (a.time != b.time) return a.time < b.time;
      if (a.is_return != b.is_return) return b.is_return;
      return a.op < b.op;
    });
    entries_.push_back({});
    returns_.assign(ops_.size(), -1);
    for (const Moment& moment : moments) {
      const int index = static_cast<int>(entries_.size());
      entries_.push_back({moment.op, moment.is_return, index - 1, kHead});
      entries_[static_cast<size_t>(index - 1)].next = index;
      if (moment.is_return) returns_[moment.op] = index;
    }
    if (entries_.size() == 1) entries_[kHead].next = kHead;
  }

  // Those are alike but for their beginning: whatever a later one explains, an earlier one does.
  void LinkOpenClears() {
    earlier_.assign(ops_.size(), -1);
    int last = -1;
    for (const Entry& entry : entries_) {
      if (&entry == entries_.data()) continue;
      const RegisterOp& op = ops_[entry.op];
      if (op.t1 != kOpen || op.kind != RegisterOp::Kind::kWrite || op.value != kNothing) continue;
      earlier_[entry.op] = last;
      last = static_cast<int>(entry.op);
    }
  }
  bool IsDone(size_t op) const { return (done_[op / 64] >> (op % 64) & 1) != 0; }
  bool HasTurn(size_t op) const {
    return earlier_[op] < 0 || IsDone(static_cast<size_t>(earlier_[op]));
  }

  bool Apply(const RegisterOp& op, int branch, uint32_t& state) const {
    switch (op.kind) {
      case RegisterOp::Kind::kWrite:
        if (branch != 0) return false;
        state = op.value;
        return true;
      case RegisterOp::Kind::kMayClear:
        if (branch == 0) state = kNothing;
        return branch <= 1;
      case RegisterOp::Kind::kRead:
        if (branch != 0) return false;
        if (state != kUnknownValue) return state == op.value;
        if (op.value != kNothing && written_.contains(op.value)) return false;
        state = op.value;
        return true;
    }
    return false;
  }

  // False if the search was here before.
  bool Remember(size_t op, uint32_t state) {
    std::vector<uint64_t> done = done_;
    done[op / 64] |= uint64_t{1} << (op % 64);
    const auto* bytes = reinterpret_cast<const char*>(done.data());
    std::string place(bytes, done.size() * sizeof(uint64_t));
    place.append(reinterpret_cast<const char*>(&state), sizeof(state));
    return seen_.insert(std::move(place)).second;
  }

  void Unlink(int index) {
    const Entry& entry = entries_[static_cast<size_t>(index)];
    entries_[static_cast<size_t>(entry.previous)].next = entry.next;
    if (entry.next != kHead) entries_[static_cast<size_t>(entry.next)].previous = entry.previous;
  }
  void Relink(int index) {
    const Entry& entry = entries_[static_cast<size_t>(index)];
    entries_[static_cast<size_t>(entry.previous)].next = index;
    if (entry.next != kHead) entries_[static_cast<size_t>(entry.next)].previous = index;
  }

  void Lift(int call) {
    const size_t op = entries_[static_cast<size_t>(call)].op;
    done_[op / 64] |= uint64_t{1} << (op % 64);
    Unlink(call);
    if (returns_[op] < 0) return;
    Unlink(returns_[op]);
    --required_;
  }
  void Restore(int call) {
    const size_t op = entries_[static_cast<size_t>(call)].op;
    done_[op / 64] &= ~(uint64_t{1} << (op % 64));
    if (returns_[op] >= 0) {
      Relink(returns_[op]);
      ++required_;
    }
    Relink(call);
  }

  const std::vector<RegisterOp> ops_;
  const size_t max_steps_;
  std::vector<Entry> entries_;  // the first one is the head
  std::vector<int> returns_;    // by operation
  std::vector<int> earlier_;    // by operation: the open clear before this one, or -1
  std::unordered_set<uint32_t> written_;
  size_t required_ = 0;  // operations with an end that have not taken effect
  std::vector<uint64_t> done_;
  std::unordered_set<std::string> seen_;
  std::vector<Taken> taken_;
  size_t steps_ = 0;
};

}  // namespace

Linearizable CheckRegister(const std::vector<RegisterOp>& ops, size_t max_steps) {
  std::unordered_set<uint32_t> read;
  for (const RegisterOp& op : ops) {
    if (op.kind == RegisterOp::Kind::kRead && op.t1 != kOpen) read.insert(op.value);
  }
  std::vector<RegisterOp> relevant;
  for (const RegisterOp& op : ops) {
    // It changes nothing that anybody saw.
    if (op.t1 == kOpen && (op.kind == RegisterOp::Kind::kRead || !read.contains(op.value))) {
      continue;
    }
    relevant.push_back(op);
  }
  return Search(std::move(relevant), max_steps).Run();
}

}  // namespace warmring::history
