#include "core/base/hash_range.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace warmring {

std::string HashRange::ToString() const {
  const std::string text = fmt::format("({:016x}, {:016x}]", start, end);
  return plane == kCommonPlane ? text : fmt::format("{}:{}", plane, text);
}

HashRangeSet::HashRangeSet(const std::vector<HashRange>& ranges) {
  for (const HashRange& r : ranges) {
    HashPoint first = r.start + 1;
    if (first <= r.end) {
      spans_.push_back({r.plane, first, r.end});
    } else {
      spans_.push_back({r.plane, first, UINT64_MAX});
      spans_.push_back({r.plane, 0, r.end});
    }
  }
  Normalise();
}

HashRangeSet HashRangeSet::Whole(Plane plane) { return HashRangeSet({HashRange::Whole(plane)}); }

void HashRangeSet::Normalise() {
  std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
    return std::tie(a.plane, a.first) < std::tie(b.plane, b.first);
  });
  std::vector<Span> merged;
  for (const Span& s : spans_) {
    const bool touches = !merged.empty() && merged.back().plane == s.plane &&
                         (s.first <= merged.back().last ||
                          (merged.back().last != UINT64_MAX && s.first == merged.back().last + 1));
    if (touches) {
      merged.back().last = std::max(merged.back().last, s.last);
    } else {
      merged.push_back(s);
    }
  }
  spans_ = std::move(merged);
}

bool HashRangeSet::Contains(KeyPoint p) const {
  auto it = std::upper_bound(spans_.begin(), spans_.end(), p, [](KeyPoint at, const Span& s) {
    return at.plane < s.plane || (at.plane == s.plane && at.hash < s.first);
  });
  if (it == spans_.begin()) return false;
  --it;
  return it->plane == p.plane && p.hash <= it->last;
}

HashRangeSet HashRangeSet::Union(const HashRangeSet& other) const {
  HashRangeSet out = *this;
  out.spans_.insert(out.spans_.end(), other.spans_.begin(), other.spans_.end());
  out.Normalise();
  return out;
}

HashRangeSet HashRangeSet::Intersection(const HashRangeSet& other) const {
  HashRangeSet out;
  auto a = spans_.begin();
  auto b = other.spans_.begin();
  while (a != spans_.end() && b != other.spans_.end()) {
    if (a->plane == b->plane) {
      const HashPoint first = std::max(a->first, b->first);
      const HashPoint last = std::min(a->last, b->last);
      if (first <= last) out.spans_.push_back({a->plane, first, last});
    }
    if (std::tie(a->plane, a->last) < std::tie(b->plane, b->last)) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

HashRangeSet HashRangeSet::Minus(const HashRangeSet& other) const {
  HashRangeSet out;
  auto b = other.spans_.begin();
  for (const Span& a : spans_) {
    while (b != other.spans_.end() && std::tie(b->plane, b->last) < std::tie(a.plane, a.first)) {
      ++b;
    }
    // What is left of `a` begins at `first`. The last span of `other` that was looked at may reach
    // into the next of these, so that `b` stays there.
    HashPoint first = a.first;
    bool left = true;
    for (auto c = b; left && c != other.spans_.end() && c->plane == a.plane && c->first <= a.last;
         ++c) {
      if (c->first > first) out.spans_.push_back({a.plane, first, c->first - 1});
      left = c->last < a.last;
      if (left) first = c->last + 1;
    }
    if (left) out.spans_.push_back({a.plane, first, a.last});
  }
  return out;
}

bool HashRangeSet::Intersects(const HashRangeSet& other) const {
  return !Intersection(other).empty();
}

bool HashRangeSet::Includes(const HashRangeSet& other) const { return other.Minus(*this).empty(); }

std::vector<HashRange> HashRangeSet::Ranges() const {
  std::vector<HashRange> out;
  out.reserve(spans_.size());
  for (size_t begin = 0; begin < spans_.size();) {
    const Plane plane = spans_[begin].plane;
    size_t end = begin;
    while (end < spans_.size() && spans_[end].plane == plane) ++end;
    // From the first point of the plane to the last: one range, whole or wrapping.
    const bool wraps = spans_[begin].first == 0 && spans_[end - 1].last == UINT64_MAX;
    for (size_t i = wraps ? begin + 1 : begin; i < end; ++i) {
      out.push_back({spans_[i].first - 1, spans_[i].last, plane});
    }
    if (wraps && end - begin == 1) out.push_back(HashRange::Whole(plane));
    if (wraps && end - begin > 1) out.back().end = spans_[begin].last;
    begin = end;
  }
  return out;
}

std::vector<Plane> HashRangeSet::Planes() const {
  std::vector<Plane> planes;
  for (const Span& s : spans_) {
    if (planes.empty() || planes.back() != s.plane) planes.push_back(s.plane);
  }
  return planes;
}

HashRangeSet HashRangeSet::On(Plane plane) const {
  const auto first = std::lower_bound(spans_.begin(), spans_.end(), plane,
                                      [](const Span& s, Plane p) { return s.plane < p; });
  const auto last = std::upper_bound(first, spans_.end(), plane,
                                     [](Plane p, const Span& s) { return p < s.plane; });
  HashRangeSet out;
  out.spans_.assign(first, last);
  return out;
}

HashRangeSet HashRangeSet::CarriedTo(Plane plane) const {
  HashRangeSet out = *this;
  for (Span& s : out.spans_) s.plane = plane;
  return out;
}

HashMeasure HashRangeSet::Measure() const {
  HashMeasure total = 0;
  for (const Span& s : spans_) {
    if (s.plane == kCommonPlane) total += static_cast<HashMeasure>(s.last - s.first) + 1;
  }
  return total;
}

double HashRangeSet::Share() const {
  return static_cast<double>(Measure()) / 18446744073709551616.0;
}

}  // namespace warmring
