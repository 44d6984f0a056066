#include "core/base/hash_range.h"

#include <algorithm>

#include <fmt/format.h>

namespace warmring {

std::string HashRange::ToString() const { return fmt::format("({:016x}, {:016x}]", start, end); }

HashRangeSet::HashRangeSet(const std::vector<HashRange>& ranges) {
  for (const HashRange& r : ranges) {
    HashPoint first = r.start + 1;
    if (first <= r.end) {
      spans_.push_back({first, r.end});
    } else {
      spans_.push_back({first, UINT64_MAX});
      spans_.push_back({0, r.end});
    }
  }
  Normalise();
}

HashRangeSet HashRangeSet::Whole() { return HashRangeSet({HashRange::Whole()}); }

void HashRangeSet::Normalise() {
  std::sort(spans_.begin(), spans_.end(),
            [](const Span& a, const Span& b) { return a.first < b.first; });
  std::vector<Span> merged;
  for (const Span& s : spans_) {
    if (!merged.empty() && (s.first <= merged.back().last || (merged.back().last != UINT64_MAX &&
                                                              s.first == merged.back().last + 1))) {
      merged.back().last = std::max(merged.back().last, s.last);
    } else {
      merged.push_back(s);
    }
  }
  spans_ = std::move(merged);
}

bool HashRangeSet::Contains(HashPoint h) const {
  auto it = std::upper_bound(spans_.begin(), spans_.end(), h,
                             [](HashPoint p, const Span& s) { return p < s.first; });
  return it != spans_.begin() && h <= std::prev(it)->last;
}

HashRangeSet HashRangeSet::Union(const HashRangeSet& other) const {
  HashRangeSet out = *this;
  out.spans_.insert(out.spans_.end(), other.spans_.begin(), other.spans_.end());
  out.Normalise();
  return out;
}

HashRangeSet HashRangeSet::Complement() const {
  HashRangeSet out;
  HashPoint next = 0;
  bool exhausted = false;
  for (const Span& s : spans_) {
    if (s.first > next) out.spans_.push_back({next, s.first - 1});
    if (s.last == UINT64_MAX) {
      exhausted = true;
    } else {
      next = s.last + 1;
    }
  }
  if (!exhausted) out.spans_.push_back({next, UINT64_MAX});
  return out;
}

HashRangeSet HashRangeSet::Intersection(const HashRangeSet& other) const {
  HashRangeSet out;
  auto a = spans_.begin();
  auto b = other.spans_.begin();
  while (a != spans_.end() && b != other.spans_.end()) {
    HashPoint first = std::max(a->first, b->first);
    HashPoint last = std::min(a->last, b->last);
    if (first <= last) out.spans_.push_back({first, last});
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  out.Normalise();
  return out;
}

HashRangeSet HashRangeSet::Minus(const HashRangeSet& other) const {
  return Intersection(other.Complement());
}

bool HashRangeSet::Intersects(const HashRangeSet& other) const {
  return !Intersection(other).empty();
}

bool HashRangeSet::Includes(const HashRangeSet& other) const { return other.Minus(*this).empty(); }

std::vector<HashRange> HashRangeSet::Ranges() const {
  std::vector<HashRange> out;
  if (spans_.empty()) return out;
  if (spans_.size() == 1 && spans_[0].first == 0 && spans_[0].last == UINT64_MAX) {
    return {HashRange::Whole()};
  }
  const bool wraps =
      spans_.size() > 1 && spans_.front().first == 0 && spans_.back().last == UINT64_MAX;
  for (size_t i = wraps ? 1 : 0; i < spans_.size(); ++i) {
    out.push_back({spans_[i].first - 1, spans_[i].last});
  }
  if (wraps) out.back().end = spans_.front().last;
  return out;
}

HashMeasure HashRangeSet::Measure() const {
  HashMeasure total = 0;
  for (const Span& s : spans_) total += static_cast<HashMeasure>(s.last - s.first) + 1;
  return total;
}

double HashRangeSet::Share() const {
  return static_cast<double>(Measure()) / 18446744073709551616.0;
}

}  // namespace warmring
