#pragma once

#include <cstdint>

// Known ways to get the ownership protocol wrong, each a single line of the real code that is taken
// only while its name is active. A build for tests (the option WARMRING_MUTANTS) has all of them,
// and tests/sim shows that each is noticed; a release has none, and IsMutant is false at compile
// time. Letters are those of the model in tests/model.
//
// One mutant at a time is active in a process. Set it before any thread runs; read from any thread.

namespace warmring {

enum class Mutant : uint8_t {
  kNone = 0,
  kA,   // a hand-over waits for nobody
  kB1,  // owners do not compare the epoch of a write
  kB2,  // owners do not compare the epoch of a range with the floor
  kC,   // the lease is counted from when its grant is received
  kD,   // a restarted server believes in no lease
  kE,   // persists are not guarded by the term
  kF,   // a write in flight is neither drained nor looked at again
  kG,   // grants carry no floors
  kH,   // an abort opens the same epoch again
  kI,   // versions are published before they are durable
  kJ,   // the belief in a lease has no slack for clock rates
  kK,   // a server whose store has turned it away goes on, and owners follow it
  kL,   // an owner adopts an epoch from a client
  kN,   // grants that carry floors are not counted as leases
  kO,   // a restarted server forgets that a new incarnation still had to wait
  kP,   // a session opens before it is durable
  kQ,   // a new incarnation does not wait for its predecessor's lease
};

#ifdef WARMRING_MUTANTS
inline Mutant active_mutant = Mutant::kNone;
inline bool IsMutant(Mutant mutant) { return active_mutant == mutant; }
#else
constexpr bool IsMutant(Mutant) { return false; }
#endif

}  // namespace warmring
