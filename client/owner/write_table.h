#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/base/ids.h"
#include "core/ownership/owner_view.h"

// Counts the writes in flight of one OwnerGuard without a lock, and so that a fence can be sure.
//
// A thread that wants to decide by the published view first marks a slot as busy, then loads the
// view, decides, and then leaves the busy state: to "in flight" when it admitted a write, to
// "passed" when it allowed an acknowledgement, to free otherwise. Who changes the rules publishes
// the new view first and looks at all slots then:
//
//     admitting thread                          changing thread (holds the guard's mutex)
//     A1  slot.state: free -> busy  (RMW)       C1  published = new view  (RMW)
//     A2  view = published                      C2  read slot.state; while busy: read it again
//     A3  decide by view
//     A4  slot.state: busy -> in flight
//
// A1, A2, C1 and C2 are sequentially consistent, so all of them stand in one order. Either A1 is
// before C2: then the changing thread sees the slot busy and waits, and at A4 it sees the outcome:
// the write is counted, whichever view admitted it. Or C2 is before A1: then C1 < C2 < A1 < A2, and
// A2 loads the new view (or one that is newer still): the write is decided by the new rules. So
// after C2 every write that an older view admitted and that has not ended is in a slot, none is
// being admitted by an older view, and the older view can be freed, since whoever uses one is busy.
// The same holds for the check before an acknowledgement, with "busy" taken from the write's own
// slot in A1 and "passed" in A4.
//
// Only the thread that has the write changes a busy slot, so it leaves that state with a plain
// store. All other changes are compare-and-swap. A slot that is held (by the changing thread, to
// read the key) is not freed by the end of its write: that waits for the guard's mutex instead.
//
// The admitting side never waits, but for the memory of a key longer than kInlineKeyBytes and for a
// larger table when more writes are in flight than ever before. A changing thread waits for the few
// instructions between A1 and A4, or for the processor to be given back to a thread there.

namespace warmring {

class alignas(128) WriteSlot {
 public:
  static constexpr size_t kInlineKeyBytes = 72;

  // Of a write in flight.
  std::string_view key() const {
    return {long_key_ == nullptr ? inline_key_.data() : long_key_.get(), key_size_};
  }
  EpochWord word() const { return {{tag_.data(), tag_.size()}, epoch_}; }
  uint64_t generation() const { return generation_; }

  // A1 for a free slot. False: it was not free.
  bool TryClaim() {
    uint32_t free = 0;
    return state_.load(std::memory_order_relaxed) == 0 &&
           state_.compare_exchange_strong(free, kUsed | kBusy, std::memory_order_seq_cst,
                                          std::memory_order_relaxed);
  }
  // A4: the write is in flight from now on. `generation`: of the view that admitted it.
  void Admit(std::string_view admitted_key, const EpochWord& word, uint64_t generation);
  // A4: nothing is in flight here.
  void Abandon() { state_.store(0, std::memory_order_release); }

  // A1 for the check before the acknowledgement.
  void BeginCheck() {
    uint32_t state = state_.load(std::memory_order_relaxed);
    while (!state_.compare_exchange_weak(state, state | kBusy, std::memory_order_seq_cst,
                                         std::memory_order_relaxed)) {
    }
  }
  // Since it was admitted, its epoch was not the one held here for a while. While checking.
  bool IsLost() const { return (state_.load(std::memory_order_relaxed) & kLost) != 0; }
  // A4 of the check.
  void EndCheck(bool passed) {
    const uint32_t state = state_.load(std::memory_order_relaxed) & ~kBusy;
    state_.store(passed ? state | kPassed : state, std::memory_order_release);
  }

  // The write has ended. False: it is held, take the mutex and call Free.
  bool TryEnd() {
    uint32_t state = state_.load(std::memory_order_relaxed);
    if (long_key_ != nullptr) return TryEndLong();
    while ((state & kHeld) == 0) {
      if (state_.compare_exchange_weak(state, 0, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  void Free() {
    long_key_.reset();
    state_.store(0, std::memory_order_release);
  }

 private:
  friend class WriteTable;
  static constexpr uint32_t kUsed = 1;
  static constexpr uint32_t kBusy = 2;
  static constexpr uint32_t kPassed = 4;
  static constexpr uint32_t kLost = 8;
  static constexpr uint32_t kHeld = 16;

  bool TryEndLong();
  // C2: the state, once it is not busy.
  uint32_t Settled() const;

  std::atomic<uint32_t> state_ = 0;
  uint32_t key_size_ = 0;
  Epoch epoch_;
  uint64_t generation_ = 0;
  std::unique_ptr<char[]> long_key_;  // null: it is in inline_key_
  std::array<char, 8> tag_{};
  std::array<char, kInlineKeyBytes> inline_key_;
};
static_assert(sizeof(WriteSlot) == 128);

class WriteTable {
 public:
  WriteTable();
  ~WriteTable();
  WriteTable(const WriteTable&) = delete;
  WriteTable& operator=(const WriteTable&) = delete;

  // A1: a slot that was free. Any thread.
  WriteSlot& Claim() {
    const Chunk* const chunk = newest_.load(std::memory_order_acquire);
    WriteSlot& slot = chunk->slots[last_slot_ & chunk->mask];
    if (last_slot_ != kUnset && slot.TryClaim()) [[likely]] {
      return slot;
    }
    return ClaimAnother();
  }

  // C2 for all slots. The rest of this class is for who holds the guard's mutex.
  void Settle() const;

  struct Write {
    const WriteSlot& slot;
    bool passed;  // it may be acknowledged
  };
  struct Marks {
    bool lose = false;  // it may not pass any more
    bool hold = false;  // its end is to take the mutex
  };
  // Calls `visit` (Marks (const Write&)) with each write in flight. Its key stays meanwhile.
  template <typename Visitor>
  void Visit(Visitor visit) {
    for (Chunk* chunk = newest_.load(std::memory_order_seq_cst); chunk != nullptr;
         chunk = chunk->older.get()) {
      for (size_t i = 0; i <= chunk->mask; ++i) {
        WriteSlot& slot = chunk->slots[i];
        uint32_t before = 0;
        if (!Hold(slot, before)) continue;
        const Marks marks = visit(Write{slot, (before & WriteSlot::kPassed) != 0});
        Unhold(slot, marks.lose, marks.hold || (before & WriteSlot::kHeld) != 0);
      }
    }
  }

 private:
  struct Chunk {
    size_t mask = 0;  // number of slots, a power of two, minus one
    std::unique_ptr<WriteSlot[]> slots;
    std::unique_ptr<Chunk> older;
  };
  static std::unique_ptr<Chunk> MakeChunk(size_t slots, std::unique_ptr<Chunk> older);
  WriteSlot& ClaimAnother();
  void Grow(const Chunk* full);
  static bool Hold(WriteSlot& slot, uint32_t& before);
  static void Unhold(WriteSlot& slot, bool lose, bool stay_held);

  // Where this thread found its last slot. A thread that has one write at a time finds the same one
  // again, which its processor has; one that has many finds the next.
  static constexpr uint32_t kUnset = UINT32_MAX;
  static constinit thread_local uint32_t last_slot_;

  // Owned. Slots are claimed in the newest; writes may be in flight in the older ones.
  std::atomic<Chunk*> newest_;
  std::mutex growing_;
};

}  // namespace warmring
