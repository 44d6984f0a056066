#include "tests/history/checker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "tests/history/register_search.h"

namespace warmring::history {
namespace {

using Events = std::vector<const Event*>;
using ArcEpoch = std::pair<std::string, uint64_t>;
using ArcKey = std::pair<std::string, std::string>;

constexpr size_t kMaxSteps = 2'000'000;

bool IsOkWrite(const Event& event) {
  return event.kind == Kind::kWrite && event.result == Result::kOk;
}
bool IsOkRead(const Event& event) {
  return event.kind == Kind::kRead && event.result == Result::kOk;
}
bool IsAttempt(const Event& event) {
  return event.kind == Kind::kWrite || event.kind == Kind::kRead;
}
// It shows that its owner accepts under its epoch.
bool ShowsUse(const Event& event) {
  return event.kind == Kind::kActivate || IsOkWrite(event) || IsOkRead(event);
}

bool EndsBefore(const Event* a, const Event* b) { return a->t1 < b->t1; }

// The epoch in use that is highest, of those that are certain at a moment: of all keys, and of all
// keys but the one that it has (whose own writes are another rule's).
class HighestUse {
 public:
  void Add(const Event* event) {
    const std::string& key = event->kind == Kind::kWrite ? event->key : kNoKey;
    if (best_ != nullptr && key == best_key_) {
      if (event->epoch > best_->epoch) best_ = event;
      return;
    }
    if (best_ == nullptr || event->epoch > best_->epoch) {
      second_ = best_;
      best_ = event;
      best_key_ = key;
    } else if (second_ == nullptr || event->epoch > second_->epoch) {
      second_ = event;
    }
  }
  const Event* OfOthersThan(const std::string& key) const {
    return best_ != nullptr && best_key_ == key ? second_ : best_;
  }

 private:
  const std::string kNoKey;
  const Event* best_ = nullptr;
  const Event* second_ = nullptr;  // the highest of another key than best_key_
  std::string best_key_;
};

class Judge {
 public:
  explicit Judge(const std::vector<Event>& events) {
    for (const Event& event : events) Sort(event);
    const auto by_begin = [](const Event* a, const Event* b) { return a->t0 < b->t0; };
    std::stable_sort(attempts_.begin(), attempts_.end(), by_begin);
    std::stable_sort(watches_.begin(), watches_.end(), by_begin);
    for (const Event* event : attempts_) by_key_[{event->arc, event->key}].push_back(event);
  }

  Verdict Run() {
    CheckCommits();
    CheckUses();
    CheckSuccession();
    CheckFences();
    CheckKeysInOrder();
    CheckVersions();
    CheckWatches();
    for (const auto& [key, events] : by_key_) {
      if (!taken_back_.contains(key.first)) CheckAcrossEpochs(events);
      CheckRegisters(events, key.first);
    }
    CheckOutcomes();
    CheckAudit();
    return std::move(verdict_);
  }

 private:
  void Sort(const Event& event) {
    if (IsAttempt(event)) {
      ++verdict_.attempts;
      if (event.result == Result::kOk) ++verdict_.acknowledged;
      if (event.result == Result::kUnknown) ++verdict_.unknown;
      attempts_.push_back(&event);
      // Whom an owner refuses for a fence, it has told of the fence.
      if (event.result == Result::kFenced) fences_[{event.owner, event.arc}].push_back(&event);
    }
    if (ShowsUse(event)) uses_[event.arc].push_back(&event);
    switch (event.kind) {
      case Kind::kFence:
        fences_[{event.owner, event.arc}].push_back(&event);
        break;
      case Kind::kWatch:
        watches_.push_back(&event);
        break;
      case Kind::kVersion:
        versions_.push_back(&event);
        break;
      case Kind::kCommit:
        commits_[{event.arc, event.epoch}].push_back(&event);
        break;
      case Kind::kBurn:
        burned_.insert(event.epoch);
        break;
      case Kind::kLost:
        losses_[event.owner].push_back(&event);
        break;
      case Kind::kSubmit:
        outcomes_[event.text];
        break;
      case Kind::kOutcome:
        outcomes_[event.text].insert(event.value.value_or(""));
        break;
      case Kind::kAudit:
        ++audit_[event.text].first;
        break;
      case Kind::kRecord:
        ++audit_[event.text].second;
        break;
      case Kind::kEnd:
        ended_ = true;
        break;
      case Kind::kWrite:
      case Kind::kRead:
      case Kind::kActivate:
        break;
    }
  }

  void Accuse(int rule, std::string text) { verdict_.findings.push_back({rule, std::move(text)}); }

  void CheckCommits() {  // R1, R10
    std::map<std::string, Events> by_arc;
    for (const auto& [place, commits] : commits_) {
      if (burned_.contains(place.second)) {
        Accuse(10, "committed although it was given up: " + Describe(*commits.front()));
      }
      for (const Event* commit : commits) {
        by_arc[place.first].push_back(commit);
        if (commit->owner != commits.front()->owner) {
          Accuse(1, fmt::format("two owners in the store: {} and {}", Describe(*commits.front()),
                                Describe(*commit)));
        }
      }
    }
    for (auto& [arc, commits] : by_arc) {
      std::stable_sort(commits.begin(), commits.end(),
                       [](const Event* a, const Event* b) { return a->version < b->version; });
      uint64_t highest = 0;
      for (const Event* commit : commits) {
        if (commit->epoch < highest) taken_back_.insert(arc);
        highest = std::max(highest, commit->epoch);
      }
    }
  }

  void CheckUses() {  // R1, R5, R10
    for (const auto& [arc, uses] : uses_) {
      for (const Event* use : uses) {
        if (burned_.contains(use->epoch)) {
          Accuse(10, "an epoch that was given up: " + Describe(*use));
          continue;
        }
        const auto found = commits_.find({arc, use->epoch});
        if (found == commits_.end()) {
          Accuse(5, "an epoch that was never committed: " + Describe(*use));
          continue;
        }
        const Event& commit = *found->second.front();
        if (commit.owner != use->owner) {
          Accuse(1, fmt::format("another owner than the store's: {} against {}", Describe(*use),
                                Describe(commit)));
        } else if (use->t1 < commit.t0) {
          Accuse(5,
                 fmt::format("before the commit: {} against {}", Describe(*use), Describe(commit)));
        }
      }
    }
  }

  void CheckSuccession() {  // R2
    for (auto& [arc, uses] : uses_) {
      if (taken_back_.contains(arc)) continue;
      Events ended = uses;
      std::sort(ended.begin(), ended.end(), EndsBefore);
      Events writes;
      for (const Event* use : uses) {
        if (IsOkWrite(*use)) writes.push_back(use);
      }
      std::sort(writes.begin(), writes.end(),
                [](const Event* a, const Event* b) { return a->t0 < b->t0; });
      HighestUse highest;
      size_t next = 0;
      for (const Event* write : writes) {
        for (; next < ended.size() && ended[next]->t1 < write->t0; ++next) {
          highest.Add(ended[next]);
        }
        const Event* later = highest.OfOthersThan(write->key);
        if (later != nullptr && later->epoch > write->epoch) {
          Accuse(2, fmt::format("acknowledged although a later epoch was in use: {} after {}",
                                Describe(*write), Describe(*later)));
        }
      }
    }
  }

  void CheckFences() {  // R3
    for (const Event* write : attempts_) {
      if (!IsOkWrite(*write) || taken_back_.contains(write->arc)) continue;
      const auto found = fences_.find({write->owner, write->arc});
      if (found == fences_.end()) continue;
      for (const Event* fence : found->second) {
        if (fence->epoch < write->epoch || fence->t1 >= write->t0) continue;
        Accuse(3, fmt::format("acknowledged after its own fence: {} after {}", Describe(*write),
                              Describe(*fence)));
        break;
      }
    }
  }

  void CheckKeysInOrder() {  // R4
    for (const auto& [key, events] : by_key_) {
      if (taken_back_.contains(key.first)) continue;
      Events writes;
      for (const Event* event : events) {
        if (IsOkWrite(*event)) writes.push_back(event);
      }
      Events ended = writes;
      std::sort(ended.begin(), ended.end(), EndsBefore);
      const Event* highest = nullptr;
      size_t next = 0;
      for (const Event* write : writes) {
        for (; next < ended.size() && ended[next]->t1 < write->t0; ++next) {
          if (highest == nullptr || ended[next]->epoch > highest->epoch) highest = ended[next];
        }
        if (highest != nullptr && highest->epoch > write->epoch) {
          Accuse(4, fmt::format("went back in epoch: {} after {}", Describe(*write),
                                Describe(*highest)));
        }
      }
    }
  }

  void CheckVersions() {  // R6
    std::stable_sort(versions_.begin(), versions_.end(),
                     [](const Event* a, const Event* b) { return a->version < b->version; });
    for (size_t i = 1; i < versions_.size(); ++i) {
      const Event& before = *versions_[i - 1];
      const Event& after = *versions_[i];
      if (after.version != before.version + 1) {
        Accuse(6,
               fmt::format("a gap or a version twice: {}, {}", Describe(before), Describe(after)));
      }
      if (after.term != 0 && after.term < before.term) {
        Accuse(6, fmt::format("the term went back: {}, {}", Describe(before), Describe(after)));
      }
    }
  }

  void CheckWatches() {  // R7
    std::map<uint64_t, std::string> digests;
    for (const Event* version : versions_) digests[version->version] = version->text;
    std::map<std::string, const Event*> last;
    for (const Event* watch : watches_) {
      const Event*& before = last[watch->owner];
      if (before != nullptr && watch->version <= before->version) {
        Accuse(7, fmt::format("went back: {} after {}", Describe(*watch), Describe(*before)));
      }
      before = watch;
      const auto stored = digests.find(watch->version);
      if (stored == digests.end()) {
        if (!versions_.empty() && watch->version > versions_.back()->version) {
          Accuse(7, "a version that the store does not have: " + Describe(*watch));
        }
      } else if (!stored->second.empty() && !watch->text.empty() && stored->second != watch->text) {
        Accuse(7, fmt::format("another content than the store's {}: {}", stored->second,
                              Describe(*watch)));
      }
    }
  }

  // Whether what was written at `write` may be missing at `read`, which is under a later epoch.
  bool MayBeLost(const Event& write, const Event& read) const {
    std::set<std::string> holders = {write.owner, read.owner};
    for (auto at = commits_.upper_bound({write.arc, write.epoch});
         at != commits_.end() && at->first.first == write.arc && at->first.second <= read.epoch;
         ++at) {
      for (const Event* commit : at->second) {
        if (commit->unclean) return true;
        holders.insert(commit->owner);
      }
    }
    for (const std::string& holder : holders) {
      const auto found = losses_.find(holder);
      if (found == losses_.end()) continue;
      for (const Event* loss : found->second) {
        if (loss->t1 >= write.t0 && loss->t0 <= read.t1) return true;
      }
    }
    return false;
  }

  void CheckAcrossEpochs(const Events& events) {  // R8
    std::unordered_map<std::string, const Event*> writer;
    Events writes;
    for (const Event* event : events) {
      if (event->kind != Kind::kWrite) continue;
      if (event->value.has_value()) writer[*event->value] = event;
      if (event->result == Result::kOk) writes.push_back(event);
    }
    Events ended = writes;
    std::sort(ended.begin(), ended.end(), EndsBefore);
    const Event* last = nullptr;  // of the writes that are over, the one that began last
    size_t next = 0;
    for (const Event* read : events) {
      if (!IsOkRead(*read)) continue;
      for (; next < ended.size() && ended[next]->t1 < read->t0; ++next) {
        if (last == nullptr || ended[next]->t0 > last->t0) last = ended[next];
      }
      if (last == nullptr || last->epoch >= read->epoch || read->value == last->value) continue;
      if (MayBeExplained(*read, *last, events, writer) || MayBeLost(*last, *read)) continue;
      Accuse(8, fmt::format("an acknowledged write is gone: {}, then {}", Describe(*last),
                            Describe(*read)));
    }
  }

  // Whether the read may have given something else than the write that ended last before it.
  static bool MayBeExplained(const Event& read, const Event& last, const Events& events,
                             const std::unordered_map<std::string, const Event*>& writer) {
    if (read.value.has_value()) {
      const auto found = writer.find(*read.value);
      if (found == writer.end()) return true;  // nobody wrote it: R12's
      // It ended after the last one began, or is open: it may have come after it.
      return found->second->result != Result::kOk || found->second->t1 > last.t0;
    }
    for (const Event* event : events) {
      if (event->kind != Kind::kWrite || event->value.has_value()) continue;
      if (event->result != Result::kOk && event->result != Result::kUnknown) continue;
      const int64_t end = event->result == Result::kOk ? event->t1 : kNever;
      if (end > last.t0 && event->t0 < read.t1) return true;
    }
    return false;
  }

  void CheckRegisters(const Events& events, const std::string& arc) {  // R12
    const bool all_epochs = taken_back_.contains(arc);
    if (all_epochs && HasUncleanCommit(arc)) return;
    std::unordered_map<std::string, const Event*> writer;
    for (const Event* event : events) {
      if (event->kind == Kind::kWrite && event->value.has_value()) writer[*event->value] = event;
    }
    std::map<uint64_t, Events> by_epoch;
    for (const Event* event : events) {
      if (IsOkRead(*event) && event->value.has_value()) {
        const auto found = writer.find(*event->value);
        if (found == writer.end() || found->second->t0 > event->t1) {
          Accuse(12, "nobody had written it: " + Describe(*event));
          continue;
        }
        if (found->second->result == Result::kRefused || found->second->result == Result::kFenced) {
          Accuse(12, fmt::format("it was refused: {}, then {}", Describe(*found->second),
                                 Describe(*event)));
          continue;
        }
      }
      by_epoch[all_epochs ? 0 : event->epoch].push_back(event);
    }
    // A delete whose answer is lost, or which a former owner refused and passed on, may take effect
    // under another epoch than its own.
    Events open_deletes;
    for (const Event* event : events) {
      if (event->kind == Kind::kWrite && event->result == Result::kUnknown &&
          !event->value.has_value()) {
        open_deletes.push_back(event);
      }
    }
    for (auto& [epoch, group] : by_epoch) {
      for (const Event* event : open_deletes) {
        if (!all_epochs && event->epoch != epoch) group.push_back(event);
      }
      CheckRegister(epoch, group);
    }
  }

  void CheckRegister(uint64_t epoch, const Events& events) {
    std::map<std::string, uint32_t> numbers;
    const auto number_of = [&numbers](const std::optional<std::string>& value) {
      if (!value.has_value()) return kNothing;
      return numbers.emplace(*value, static_cast<uint32_t>(numbers.size() + 1)).first->second;
    };
    std::vector<RegisterOp> ops;
    std::set<std::string> owners;
    for (const Event* event : events) {
      if (IsOkRead(*event)) {
        ops.push_back({RegisterOp::Kind::kRead, event->t0, event->t1, number_of(event->value)});
      } else if (IsOkWrite(*event)) {
        ops.push_back({RegisterOp::Kind::kWrite, event->t0, event->t1, number_of(event->value)});
      } else if (event->kind == Kind::kWrite && event->result == Result::kUnknown) {
        ops.push_back({RegisterOp::Kind::kWrite, event->t0, kNever, number_of(event->value)});
        continue;  // it may have gone anywhere
      } else {
        continue;
      }
      owners.insert(event->owner);
    }
    if (owners.empty()) return;
    AddLosses(owners, ops);
    ++verdict_.registers;
    switch (history::CheckRegister(ops, kMaxSteps)) {
      case Linearizable::kYes:
        return;
      case Linearizable::kUndecided:
        ++verdict_.undecided;
        return;
      case Linearizable::kNo:
        break;
    }
    std::string text =
        epoch == 0 ? fmt::format("no order explains {} under all epochs:", events.front()->key)
                   : fmt::format("no order explains {} under {}:", events.front()->key, epoch);
    constexpr size_t kShown = 30;
    size_t shown = 0;
    for (const Event* event : events) {
      if (event->result != Result::kOk && event->result != Result::kUnknown) continue;
      if (shown++ < kShown) text += "\n    " + Describe(*event);
    }
    Accuse(12, std::move(text));
  }

  // Those that somebody may have noticed: before all operations the register holds anything anyway.
  void AddLosses(const std::set<std::string>& owners, std::vector<RegisterOp>& ops) const {
    int64_t begin = kNever;
    int64_t end = 0;
    for (const RegisterOp& op : ops) {
      begin = std::min(begin, op.t0);
      end = std::max(end, op.t1);
    }
    for (const std::string& owner : owners) {
      const auto lost = losses_.find(owner);
      if (lost == losses_.end()) continue;
      for (const Event* loss : lost->second) {
        if (loss->t1 < begin || loss->t0 > end) continue;
        ops.push_back({RegisterOp::Kind::kMayClear, loss->t0, loss->t1, kNothing});
      }
    }
  }

  bool HasUncleanCommit(const std::string& arc) const {
    for (auto at = commits_.lower_bound({arc, 0}); at != commits_.end() && at->first.first == arc;
         ++at) {
      for (const Event* commit : at->second) {
        if (commit->unclean) return true;
      }
    }
    return false;
  }

  void CheckOutcomes() {  // R9
    for (const auto& [migration, outcomes] : outcomes_) {
      if (outcomes.size() > 1) {
        Accuse(9, fmt::format("migration {} ended as {} and as {}", migration, *outcomes.begin(),
                              *outcomes.rbegin()));
      } else if (outcomes.empty() && ended_) {
        Accuse(9, fmt::format("migration {} has no outcome", migration));
      }
    }
  }

  void CheckAudit() {  // R11
    for (const auto& [id, counts] : audit_) {
      const auto& [lines, records] = counts;
      if (lines == records) continue;
      Accuse(11, fmt::format("{}: {} audit lines, {} records", id, lines, records));
    }
  }

  Verdict verdict_;
  Events attempts_;
  Events watches_;
  Events versions_;
  std::map<ArcKey, Events> by_key_;
  std::map<std::string, Events> uses_;                            // by arc
  std::map<std::pair<std::string, std::string>, Events> fences_;  // by owner and arc
  std::map<ArcEpoch, Events> commits_;
  std::map<std::string, Events> losses_;  // by owner
  std::set<uint64_t> burned_;
  std::set<std::string> taken_back_;                        // arcs
  std::map<std::string, std::set<std::string>> outcomes_;   // by migration
  std::map<std::string, std::pair<size_t, size_t>> audit_;  // lines and records
  bool ended_ = false;
};

}  // namespace

std::string Verdict::Describe(size_t max) const {
  std::string text = fmt::format(
      "{} operations ({} acknowledged, {} unknown), {} registers ({} undecided): ", attempts,
      acknowledged, unknown, registers, undecided);
  if (findings.empty()) return text + "no violation";
  text += fmt::format("{} violations", findings.size());
  for (size_t i = 0; i < findings.size() && i < max; ++i) {
    text += fmt::format("\n  R{}: {}", findings[i].rule, findings[i].text);
  }
  return text;
}

Verdict Check(const std::vector<Event>& events) { return Judge(events).Run(); }

}  // namespace warmring::history
