#include "client/owner/write_table.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace warmring {
namespace {

constexpr size_t kFirstSlots = 256;
constexpr size_t kMostSlots = 65'536;  // of one chunk
constexpr size_t kProbes = 64;
// Threads begin to look for a slot this far from each other.
constexpr uint32_t kStride = 8;
std::atomic<uint32_t> threads = 0;

// Gives the processor to whoever may be in a busy slot.
void WaitABit(int turn) {
  if (turn < 100) {
    sched_yield();
    return;
  }
  const timespec pause{0, 50'000};
  nanosleep(&pause, nullptr);
}

}  // namespace

void WriteSlot::Admit(std::string_view admitted_key, const EpochWord& word, uint64_t generation) {
  epoch_ = word.epoch;
  generation_ = generation;
  std::memcpy(tag_.data(), word.history_tag.data(), tag_.size());
  key_size_ = static_cast<uint32_t>(admitted_key.size());
  char* to = inline_key_.data();
  if (admitted_key.size() > kInlineKeyBytes) [[unlikely]] {
    long_key_ = std::make_unique_for_overwrite<char[]>(admitted_key.size());
    to = long_key_.get();
  }
  if (!admitted_key.empty()) std::memcpy(to, admitted_key.data(), admitted_key.size());
  state_.store(kUsed, std::memory_order_release);
}

// The key's memory is given back before the slot is another thread's, and not while it is held: the
// slot is made busy first, which also keeps it from being held.
bool WriteSlot::TryEndLong() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kHeld) == 0) {
    if (state_.compare_exchange_weak(state, state | kBusy, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
      Free();
      return true;
    }
  }
  return false;
}

uint32_t WriteSlot::Settled() const {
  uint32_t state = state_.load(std::memory_order_seq_cst);
  for (int turn = 0; (state & kBusy) != 0; ++turn) {
    WaitABit(turn);
    state = state_.load(std::memory_order_seq_cst);
  }
  return state;
}

WriteTable::WriteTable() : newest_(MakeChunk(kFirstSlots, nullptr).release()) {}

WriteTable::~WriteTable() {
  const std::unique_ptr<Chunk> owned(newest_.load(std::memory_order_relaxed));
}

std::unique_ptr<WriteTable::Chunk> WriteTable::MakeChunk(size_t slots,
                                                         std::unique_ptr<Chunk> older) {
  auto chunk = std::make_unique<Chunk>();
  chunk->mask = slots - 1;
  chunk->slots = std::make_unique<WriteSlot[]>(slots);
  chunk->older = std::move(older);
  return chunk;
}

constinit thread_local uint32_t WriteTable::last_slot_ = WriteTable::kUnset;

WriteSlot& WriteTable::ClaimAnother() {
  if (last_slot_ == kUnset) last_slot_ = threads.fetch_add(1, std::memory_order_relaxed) * kStride;
  for (;;) {
    const Chunk* const chunk = newest_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < kProbes; ++i) {
      const uint32_t at = (last_slot_ + i) % kMostSlots;
      WriteSlot& slot = chunk->slots[at & chunk->mask];
      if (!slot.TryClaim()) continue;
      last_slot_ = at;
      return slot;
    }
    Grow(chunk);
  }
}

// A slot of the new chunk is claimed only after the chunk is published, so that whoever reads the
// slots without seeing it published its view before.
void WriteTable::Grow(const Chunk* full) {
  const std::lock_guard<std::mutex> lock(growing_);
  Chunk* const newest = newest_.load(std::memory_order_relaxed);
  if (newest != full) return;
  const size_t slots = std::min(kMostSlots, 2 * (newest->mask + 1));
  newest_.store(MakeChunk(slots, std::unique_ptr<Chunk>(newest)).release(),
                std::memory_order_seq_cst);
}

void WriteTable::Settle() const {
  for (const Chunk* chunk = newest_.load(std::memory_order_seq_cst); chunk != nullptr;
       chunk = chunk->older.get()) {
    for (size_t i = 0; i <= chunk->mask; ++i) chunk->slots[i].Settled();
  }
}

// False: nothing is in flight there.
bool WriteTable::Hold(WriteSlot& slot, uint32_t& before) {
  before = slot.Settled();
  while (before != 0) {
    if (slot.state_.compare_exchange_weak(before, before | WriteSlot::kHeld,
                                          std::memory_order_acq_rel, std::memory_order_relaxed)) {
      return true;
    }
    before = slot.Settled();
  }
  return false;
}

void WriteTable::Unhold(WriteSlot& slot, bool lose, bool stay_held) {
  for (;;) {
    uint32_t state = slot.Settled();
    uint32_t after = lose ? state | WriteSlot::kLost : state;
    if (!stay_held) after &= ~WriteSlot::kHeld;
    if (slot.state_.compare_exchange_weak(state, after, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
      return;
    }
  }
}

}  // namespace warmring
