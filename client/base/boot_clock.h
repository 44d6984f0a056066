#pragma once

#include <cstdint>
#include <functional>

#include "core/base/ids.h"
#include "core/base/instant.h"

namespace warmring {

// The clock that leases and deadlines are counted on, as a value to inject.
using InstantClock = std::function<Instant()>;

// Reads CLOCK_BOOTTIME: counts suspend, never steps. Any thread.
Instant BootNow();

// 64 and 128 bits from the system's random source. Any thread. Crashes when
// there is none.
uint64_t RandomSeed();
Incarnation RandomIncarnation();

}  // namespace warmring
