#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "agent/engine/cache_engine.h"
#include "core/base/hash_range.h"
#include "core/base/ids.h"
#include "migrations/plan.h"

// What travels between the agents of a donor and a recipient, as values, and the two ends of the
// stream that carries it.

namespace warmring {

enum class PullMode : uint8_t {
  kCopy = 1,   // a full scan, then changes until the stream ends
  kDirty = 2,  // the dirty set of a fenced owner, once
};

// What a recipient wants.
struct PullOrder {
  KeyspaceId keyspace;
  HistoryId history;
  MigrationId migration;
  Id128 nonce;
  PullMode mode = PullMode::kCopy;
  HashRangeSet ranges;
  TransferLimits limits;
  NodeId recipient;
  friend bool operator==(const PullOrder&, const PullOrder&) = default;
};

// What a donor sends. Of one key, a later item is newer.
struct EntryBatch {
  std::vector<EngineEntry> entries;
  bool scan = false;        // of the scan, or changes
  uint64_t keys_total = 0;  // estimate of what the scan will send in all; 0 = unknown
};
// A LogPosition in the stream: all changes up to it have been sent.
struct ScanEnd {
  uint64_t keys = 0;
};
struct DigestBatch {
  struct Digest {
    std::string key;
    bool absent = false;
    uint64_t digest = 0;
  };
  std::vector<Digest> digests;
  bool done = false;  // the last one of a request
};
// The donor cannot vouch for the transfer any more.
struct SuspectNote {
  std::string reason;
};
struct DirtyEnd {
  uint64_t keys = 0;
  bool complete = false;
  LogPosition watermark;
};
using PullItem = std::variant<EntryBatch, LogPosition, ScanEnd, DigestBatch, SuspectNote, DirtyEnd>;

// What a recipient asks for while a stream is open.
struct VerifyRequest {
  uint32_t sample = 0;            // so many random keys, or
  std::vector<std::string> keys;  // exactly these
};

// The donor's end of a stream.
class PullSink {
 public:
  virtual ~PullSink() = default;
  // Blocks while the reader is slow. False: the stream is over.
  virtual bool Send(PullItem item) = 0;
};

// The recipient's end. One thread reads; the other calls may come from any thread.
class PullChannel {
 public:
  virtual ~PullChannel() = default;
  // Blocks. False: the stream is over; Finish says why.
  virtual bool Read(PullItem* item) = 0;
  // Neither waits for the donor.
  virtual void Acknowledge(uint64_t position) = 0;
  virtual void Verify(const VerifyRequest& request) = 0;
  // Ends the stream from this side; a blocked Read returns false.
  virtual void Cancel() = 0;
  // Why the stream is over; Ok when the donor has sent all. REQUIRES: Read returned false, or
  // Cancel was called and nobody reads.
  virtual absl::Status Finish() = 0;
};

// Opens a stream to the agent at `address`. Does not wait for it: the first Read does.
using PullDialer =
    std::function<std::unique_ptr<PullChannel>(const std::string& address, const PullOrder&)>;

}  // namespace warmring
