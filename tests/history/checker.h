#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/history/event.h"

namespace warmring::history {

// The rules of ownership that a history can break. Only what is certain breaks one: operations
// whose times overlap may have happened in any order, and a lost answer is open for ever.
//
//   R1   an arc has one owner under an epoch, and it is the one that the store names
//   R2   no write is acknowledged under an epoch that began after a later epoch of its arc was in
//        use (an owner activated it, or acknowledged something under it)
//   R3   no write is acknowledged by an owner under an epoch that began after this owner had fenced
//        that epoch (said so, or refused somebody for it)
//   R4   of one key, acknowledged writes do not go back in epoch
//   R5   every epoch in use was committed, and not used before
//   R6   versions have no gap, none twice; terms do not go back
//   R7   a watcher's versions only grow, and have the content that the store has
//   R8   what was acknowledged under an earlier epoch is there, and nothing older, under a later
//   one,
//        unless a commit in between was unclean or the engine lost its memory
//   R9   each migration has one outcome
//   R10  an epoch that was given up is never seen
//   R11  each audit line has its record in the store, and each record its line
//   R12  inside one epoch each key is a linearizable register (its content at the beginning of the
//        epoch is R8's); nobody reads what nobody wrote, or what was refused
//
// An arc whose epoch the store itself takes back (the key of an override that has ended) is judged
// by R1, R5 and R10, and by R12 over all its epochs at once; the order of epochs says nothing of
// it.
struct Finding {
  int rule = 0;      // 1 to 12
  std::string text;  // names the events
};

struct Verdict {
  std::vector<Finding> findings;
  size_t attempts = 0;      // of clients
  size_t acknowledged = 0;  // of these
  size_t unknown = 0;       // of these
  size_t registers = 0;     // (key, epoch) that R12 looked at
  size_t undecided = 0;     // of these: given up

  bool ok() const { return findings.empty(); }
  // "1234 operations (1000 acknowledged, 5 unknown), 321 registers (0 undecided): no violation", or
  // the findings, a line each, at most `max` of them.
  std::string Describe(size_t max = 10) const;
};

// Judges a whole history, in any order of its events. Pure, any thread.
Verdict Check(const std::vector<Event>& events);

}  // namespace warmring::history
