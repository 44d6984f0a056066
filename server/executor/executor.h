#pragma once

#include <functional>

#include "core/base/instant.h"

namespace warmring {

// Runs work one piece at a time, in the order in which it was posted: a strand. What lives on a
// strand needs no lock. Any thread may post.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(std::function<void()> work) = 0;
  // Once, at or soon after `when` (of Clock::Boot), in turn with posted work. There is no way to
  // take it back: the work looks for itself whether it is still wanted.
  virtual void RunAt(Instant when, std::function<void()> work) = 0;
};

}  // namespace warmring
