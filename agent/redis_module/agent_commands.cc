#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "agent/redis_module/arguments.h"
#include "agent/redis_module/failpoint.h"
#include "agent/redis_module/module.h"
#include "agent/redis_module/value_digest.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"

// The commands that the agent sends (docs/protocol.md, section 2.3).

namespace warmring {
namespace {

using redis::Reply;

constexpr uint64_t kMaxKeysPerCall = 100'000;
constexpr uint64_t kMaxTtlMs = 24ULL * 3600 * 1000;
constexpr int64_t kMaxRemainingMs = INT64_MAX / 4;

// An error with a code of its own instead of ERR.
absl::Status Coded(std::string_view code, std::string_view text) {
  return absl::AbortedError(fmt::format("{} {}", code, text));
}

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// One command while it runs.
struct Call {
  redis::Context* context;
  Arguments words;
  OwnerState& state;

  void Array(size_t size) const { redis::api.ReplyWithArray(context, static_cast<long>(size)); }
  void Text(std::string_view text) const { redis::ReplyText(context, text); }
  void Number(uint64_t number) const {
    redis::api.ReplyWithLongLong(context, static_cast<long long>(number));
  }
  void Flag(bool flag) const { redis::api.ReplyWithLongLong(context, flag ? 1 : 0); }
  void Null() const { redis::api.ReplyWithNull(context); }
  void Ok() const { redis::api.ReplyWithSimpleString(context, "OK"); }
  void Keys(const std::vector<std::string>& keys) const {
    Array(keys.size());
    for (const std::string& key : keys) Text(key);
  }
};

absl::StatusOr<OnRestart> ParsePolicy(std::string_view text) {
  if (text == "purge") return OnRestart::kPurge;
  if (text == "trust") return OnRestart::kTrust;
  return absl::InvalidArgumentError(
      fmt::format("on_restart: '{}': use purge or trust", Printable(text)));
}

// WR.ATTACH <history> <keyspace> <node> <purge|trust>
absl::Status Attach(Call& call) {
  OwnerBinding binding;
  ASSIGN_OR_RETURN(const Id128 history, call.words.Id("history"));
  ASSIGN_OR_RETURN(const std::string_view keyspace, call.words.Text("keyspace"));
  ASSIGN_OR_RETURN(const std::string_view node, call.words.Text("node"));
  ASSIGN_OR_RETURN(const std::string_view policy_text, call.words.Text("on_restart"));
  ASSIGN_OR_RETURN(const OnRestart policy, ParsePolicy(policy_text));
  RETURN_IF_ERROR(call.words.Finish());
  RETURN_IF_ERROR(ValidateId("keyspace", keyspace));
  RETURN_IF_ERROR(ValidateId("node", node));
  binding.history = HistoryId{history};
  binding.keyspace = keyspace;
  binding.node = node;
  const uint64_t keys = redis::api.DbSize(call.context);
  const OwnerState::Attachment attachment =
      call.state.Attach(binding, policy, keys, FreshIncarnation());
  call.Array(4);
  call.Text(call.state.incarnation().ToString());
  call.Number(attachment.generation);
  call.Number(keys);
  call.Flag(attachment.purge_due);
  return absl::OkStatus();
}

// WR.MAP <gen> <bytes>
absl::Status Map(Call& call) {
  ASSIGN_OR_RETURN(const std::string_view bytes, call.words.Text("membership"));
  RETURN_IF_ERROR(call.words.Finish());
  ASSIGN_OR_RETURN(Membership::Ptr membership, DecodeMembership(bytes));
  RETURN_IF_ERROR(call.state.Install(std::move(membership), BootNow()));
  WARMRING_FP("module.map.installed");
  call.Ok();
  return absl::OkStatus();
}

// WR.RENEW <gen>
absl::Status Renew(Call& call) {
  RETURN_IF_ERROR(call.words.Finish());
  call.Number(call.state.view().Renew(BootNow()));
  return absl::OkStatus();
}

// WR.GRANT <gen> <seq> <term> <ttl ms> <version> [FLOOR <epoch> <ranges>]...
absl::Status Grant(Call& call) {
  LeaseGrant grant;
  ASSIGN_OR_RETURN(grant.seq, call.words.Number("seq", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(grant.term.value, call.words.Number("term", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const uint64_t ttl_ms, call.words.Number("ttl", 1, kMaxTtlMs));
  ASSIGN_OR_RETURN(grant.version.value, call.words.Number("version", 0, UINT64_MAX));
  grant.ttl = absl::Milliseconds(ttl_ms);
  while (call.words.left() > 0) {
    ASSIGN_OR_RETURN(const std::string_view word, call.words.Text("FLOOR"));
    if (word != "FLOOR") {
      return absl::InvalidArgumentError(
          fmt::format("'{}': FLOOR or the end is expected", Printable(word)));
    }
    Floor floor;
    ASSIGN_OR_RETURN(floor.epoch.value, call.words.Number("floor", 0, UINT64_MAX));
    ASSIGN_OR_RETURN(floor.ranges, call.words.Ranges("ranges"));
    grant.floors.push_back(std::move(floor));
  }
  if (call.state.purge_due()) {
    // Closing is always safe, also where nothing may be opened yet.
    for (const Floor& floor : grant.floors) call.state.view().Fence(floor.ranges, floor.epoch);
    return Coded("WRPURGE",
                 "this incarnation found keys that it must not serve: run WR.PURGE ALL "
                 "to its end first");
  }
  WARMRING_FP("module.grant.read");
  RETURN_IF_ERROR(call.state.view().Grant(grant));
  WARMRING_FP("module.grant.applied");
  call.Ok();
  return absl::OkStatus();
}

absl::StatusOr<MigrationId> ParseMigration(Call& call) {
  ASSIGN_OR_RETURN(const std::string_view migration, call.words.Text("migration"));
  RETURN_IF_ERROR(ValidateId("migration", migration));
  return MigrationId(migration);
}

// WR.FENCE <gen> <migration> <epoch> <ranges>
absl::Status Fence(Call& call) {
  ASSIGN_OR_RETURN(const MigrationId migration, ParseMigration(call));
  ASSIGN_OR_RETURN(const uint64_t epoch, call.words.Number("epoch", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const HashRangeSet ranges, call.words.Ranges("ranges"));
  RETURN_IF_ERROR(call.words.Finish());
  RETURN_IF_ERROR(call.state.view().CheckPlanes(ranges));
  call.state.view().Fence(ranges, Epoch(epoch));
  WARMRING_FP("module.fence.raised");
  // Commands run one at a time: what was admitted before this one has its place in the log.
  const DirtySet* dirty = call.state.DirtyOf(migration);
  call.Array(3);
  call.Text(call.state.changes().id());
  call.Number(call.state.changes().end());
  call.Flag(dirty != nullptr && dirty->complete());
  return absl::OkStatus();
}

// WR.TRACK <gen> <nonce> <ranges>
absl::Status Track(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  ASSIGN_OR_RETURN(const HashRangeSet ranges, call.words.Ranges("ranges"));
  RETURN_IF_ERROR(call.words.Finish());
  ASSIGN_OR_RETURN(const uint64_t position, call.state.Track(nonce, ranges));
  call.Array(2);
  call.Text(call.state.changes().id());
  call.Number(position);
  return absl::OkStatus();
}

// WR.UNTRACK <gen> <nonce>
absl::Status Untrack(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  RETURN_IF_ERROR(call.words.Finish());
  call.state.Untrack(nonce);
  call.Ok();
  return absl::OkStatus();
}

absl::StatusOr<size_t> ParseCount(Call& call) {
  ASSIGN_OR_RETURN(const uint64_t count, call.words.Number("count", 1, kMaxKeysPerCall));
  return static_cast<size_t>(count);
}

// WR.CHANGES <gen> <nonce> <log id> <cursor> <ack> <count>
absl::Status Changes(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  ASSIGN_OR_RETURN(const std::string_view log_id, call.words.Text("log id"));
  ASSIGN_OR_RETURN(const uint64_t cursor, call.words.Number("cursor", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const uint64_t ack, call.words.Number("ack", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const size_t count, ParseCount(call));
  RETURN_IF_ERROR(call.words.Finish());
  const absl::StatusOr<ChangeLog::Page> page =
      call.state.changes().Read(nonce, log_id, cursor, ack, count);
  if (page.status().code() == absl::StatusCode::kFailedPrecondition) {
    return Coded("WRSUSPECT", MessageOf(page.status()));
  }
  RETURN_IF_ERROR(page.status());
  call.Array(2);
  call.Number(page->next);
  call.Keys(page->keys);
  return absl::OkStatus();
}

// One step of a SCAN of the whole dataset.
struct ScanStep {
  std::string next;  // "0": done
  std::vector<std::string> keys;
};
absl::StatusOr<ScanStep> Scan(Call& call, uint64_t cursor, size_t count) {
  const std::string from = fmt::format("{}", cursor);
  const Reply reply(redis::api.Call(call.context, "SCAN", "bcl", from.data(), from.size(), "COUNT",
                                    static_cast<long long>(count)));
  if (reply.size() != 2) {
    return absl::InternalError(fmt::format("SCAN: {}", Printable(reply.text())));
  }
  ScanStep step;
  step.next = reply[0].text();
  const Reply keys = reply[1];
  for (size_t i = 0; i < keys.size(); ++i) step.keys.emplace_back(keys[i].text());
  return step;
}

// WR.SCAN <gen> <nonce> <cursor> <count>
absl::Status ScanTracked(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  ASSIGN_OR_RETURN(const uint64_t cursor, call.words.Number("cursor", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const size_t count, ParseCount(call));
  RETURN_IF_ERROR(call.words.Finish());
  const HashRangeSet* ranges = call.state.TrackedRanges(nonce);
  if (ranges == nullptr) {
    return Coded("WRSUSPECT", fmt::format("the transfer {} is not tracked", nonce.ToString()));
  }
  ASSIGN_OR_RETURN(ScanStep step, Scan(call, cursor, count));
  std::erase_if(step.keys,
                [&](const std::string& key) { return !ranges->Contains(call.state.PointOf(key)); });
  call.Array(2);
  call.Text(step.next);
  call.Keys(step.keys);
  return absl::OkStatus();
}

// What goes with a key beside its payload. Nothing when the key is absent.
struct KeyFacts {
  int64_t remaining_ms = -1;
  int64_t frequency = -1;
};
std::optional<KeyFacts> FactsOf(redis::Context* context, redis::String* name) {
  redis::Key* const key = redis::api.OpenKey(context, name, redis::kOpenRead | redis::kOpenNoTouch);
  if (key == nullptr) return std::nullopt;
  KeyFacts facts;
  facts.remaining_ms = redis::api.GetExpire(key);
  long long frequency = -1;
  if (redis::api.GetLFU(key, &frequency) == redis::kOk) facts.frequency = frequency;
  redis::api.CloseKey(key);
  return facts;
}

void ReplyDump(const Call& call, redis::String* name) {
  const std::optional<KeyFacts> facts = FactsOf(call.context, name);
  const Reply payload(redis::api.Call(call.context, "DUMP", "s", name));
  // A key whose time ran out between the two is gone like any other.
  if (!facts || facts->remaining_ms == 0 || !payload.Is(redis::kReplyString)) {
    call.Null();
    return;
  }
  call.Array(3);
  call.Text(payload.text());
  redis::api.ReplyWithLongLong(call.context, facts->remaining_ms);
  redis::api.ReplyWithLongLong(call.context, facts->frequency);
}

void ReplyDigest(const Call& call, redis::String* name) {
  const std::optional<uint64_t> digest = DigestOfValue(call.context, name);
  if (digest) {
    call.Text(fmt::format("{:016x}", *digest));
  } else {
    call.Null();
  }
}

// Log id, position, and an element for each key, all of one instant.
absl::Status ReplyForKeys(Call& call, void (*reply)(const Call&, redis::String*)) {
  if (call.words.left() == 0) return absl::InvalidArgumentError("key: it is missing");
  call.Array(3);
  call.Text(call.state.changes().id());
  call.Number(call.state.changes().end());
  call.Array(static_cast<size_t>(call.words.left()));
  while (call.words.left() > 0) reply(call, call.words.NextString());
  return absl::OkStatus();
}

// WR.DUMP <gen> key ...
absl::Status Dump(Call& call) { return ReplyForKeys(call, ReplyDump); }

// WR.DIGEST <gen> key ...
absl::Status Digest(Call& call) { return ReplyForKeys(call, ReplyDigest); }

// WR.DIRTY <gen> <migration> <cursor> <count>
absl::Status Dirty(Call& call) {
  ASSIGN_OR_RETURN(const MigrationId migration, ParseMigration(call));
  ASSIGN_OR_RETURN(const uint64_t cursor, call.words.Number("cursor", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const size_t count, ParseCount(call));
  RETURN_IF_ERROR(call.words.Finish());
  const DirtySet* dirty = call.state.DirtyOf(migration);
  const DirtySet::Page page = dirty != nullptr ? dirty->Read(cursor, count) : DirtySet::Page();
  call.Array(3);
  call.Flag(dirty != nullptr && dirty->complete());
  call.Number(page.next);
  call.Keys(page.keys);
  return absl::OkStatus();
}

// WR.OPEN <gen> <nonce> <migration> <ranges>
absl::Status Open(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  ASSIGN_OR_RETURN(const MigrationId migration, ParseMigration(call));
  ASSIGN_OR_RETURN(const HashRangeSet ranges, call.words.Ranges("ranges"));
  RETURN_IF_ERROR(call.words.Finish());
  RETURN_IF_ERROR(call.state.Open(nonce, migration, ranges));
  call.Ok();
  return absl::OkStatus();
}

// WR.CLOSE <gen> <nonce>
absl::Status Close(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  RETURN_IF_ERROR(call.words.Finish());
  call.state.Close(nonce);
  call.Ok();
  return absl::OkStatus();
}

absl::Status Void(const Id128& nonce) {
  return Coded("WRVOID", fmt::format("the transfer {} is closed, or its ranges have changed hands",
                                     nonce.ToString()));
}

// Which keys a purge may delete, by the map of this moment.
class PurgeScope {
 public:
  static absl::StatusOr<PurgeScope> Parse(const OwnerState& state, std::string_view text) {
    if (text == "ALL") {
      if (state.purge_due()) return PurgeScope(state, true, nullptr);
      return absl::FailedPreconditionError(
          "ALL: no purge of everything is due: use LEFT or a nonce");
    }
    if (!state.has_map()) {
      return absl::FailedPreconditionError("no map is installed: send WR.MAP first");
    }
    if (text == "LEFT") return PurgeScope(state, false, nullptr);
    const absl::StatusOr<Id128> nonce = Id128::Parse(text);
    if (!nonce.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("scope: '{}': use ALL, LEFT or a nonce", Printable(text)));
    }
    const OwnerState::Transfer* transfer = state.FindTransfer(*nonce);
    if (transfer == nullptr) return Void(*nonce);
    return PurgeScope(state, false, transfer);
  }

  bool all() const { return all_; }
  bool Contains(std::string_view key) const {
    if (all_) return true;
    const KeyPoint point = state_->PointOf(key);
    if (transfer_ == nullptr) return !state_->view().IsEntitled(point);
    return transfer_->open.Contains(point) && !state_->view().Owns(point);
  }

 private:
  PurgeScope(const OwnerState& state, bool all, const OwnerState::Transfer* transfer)
      : state_(&state), all_(all), transfer_(transfer) {}

  const OwnerState* state_;
  bool all_;
  const OwnerState::Transfer* transfer_;  // null: everything that is not ours
};

// WR.PURGE <gen> <nonce|LEFT|ALL> <cursor> <count>
absl::Status Purge(Call& call) {
  ASSIGN_OR_RETURN(const std::string_view scope_text, call.words.Text("scope"));
  ASSIGN_OR_RETURN(const uint64_t cursor, call.words.Number("cursor", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const size_t count, ParseCount(call));
  RETURN_IF_ERROR(call.words.Finish());
  ASSIGN_OR_RETURN(const PurgeScope scope, PurgeScope::Parse(call.state, scope_text));
  ASSIGN_OR_RETURN(ScanStep step, Scan(call, cursor, count));
  uint64_t deleted = 0;
  {
    OwnerState::Action action(call.state, Cause::kTransfer);
    for (const std::string& key : step.keys) {
      if (!scope.Contains(key)) continue;
      const Reply reply(redis::api.Call(call.context, "UNLINK", "!b", key.data(), key.size()));
      deleted += static_cast<uint64_t>(reply.integer());
    }
  }
  // Nobody can write while the purge is due, so that an empty dataset stays empty.
  if (scope.all() && redis::api.DbSize(call.context) == 0) {
    call.state.PurgeDone();
    step.next = "0";
  }
  call.Array(2);
  call.Text(step.next);
  call.Number(deleted);
  return absl::OkStatus();
}

// An entry of a transfer.
struct Entry {
  redis::String* key = nullptr;
  redis::String* payload = nullptr;  // null: a delete
  int64_t remaining_ms = -1;
  int64_t frequency = -1;
};

absl::StatusOr<Entry> ParseEntry(Call& call) {
  Entry entry;
  entry.key = call.words.NextString();
  ASSIGN_OR_RETURN(const std::string_view what, call.words.Text("SET or DEL"));
  if (what == "DEL") return entry;
  if (what != "SET") {
    return absl::InvalidArgumentError(fmt::format("'{}': use SET or DEL", Printable(what)));
  }
  if (call.words.left() < 3) {
    return absl::InvalidArgumentError("SET: payload, ms and freq must follow");
  }
  entry.payload = call.words.NextString();
  ASSIGN_OR_RETURN(entry.remaining_ms, call.words.Signed("ms", -2, kMaxRemainingMs));
  ASSIGN_OR_RETURN(entry.frequency, call.words.Signed("freq", -1, 255));
  return entry;
}

absl::Status ApplyEntry(Call& call, const Entry& entry) {
  const auto ttl = static_cast<long long>(entry.remaining_ms);
  // -1 is no time to live; 0 and -2 are a key that is gone.
  if (entry.payload == nullptr || ttl == 0 || ttl == -2) {
    const Reply reply(redis::api.Call(call.context, "DEL", "!s", entry.key));
    return absl::OkStatus();
  }
  const long long restore_ttl = ttl < 0 ? 0 : ttl;
  const Reply reply(entry.frequency < 0
                        ? redis::api.Call(call.context, "RESTORE", "!EMslsc", entry.key,
                                          restore_ttl, entry.payload, "REPLACE")
                        : redis::api.Call(call.context, "RESTORE", "!EMslsccl", entry.key,
                                          restore_ttl, entry.payload, "REPLACE", "FREQ",
                                          static_cast<long long>(entry.frequency)));
  if (!reply.IsError()) return absl::OkStatus();
  const std::string_view text = reply.text();
  if (text.substr(0, 3) == "OOM") return Coded("OOM", "the server has no memory for the transfer");
  return Coded("WRPAYLOAD", fmt::format("this server refuses a payload: {}", Printable(text, 200)));
}

// WR.APPLY <gen> <nonce> (key SET payload ms freq | key DEL)...
absl::Status Apply(Call& call) {
  ASSIGN_OR_RETURN(const Id128 nonce, call.words.Id("nonce"));
  const OwnerState::Transfer* transfer = call.state.FindTransfer(nonce);
  if (transfer == nullptr) return Void(nonce);
  std::vector<Entry> entries;
  while (call.words.left() > 0) {
    ASSIGN_OR_RETURN(Entry entry, ParseEntry(call));
    if (!transfer->ranges.Contains(call.state.PointOf(redis::TextOf(entry.key)))) {
      return absl::InvalidArgumentError(
          fmt::format("key: '{}' is outside the ranges of the transfer {}",
                      Printable(redis::TextOf(entry.key)), nonce.ToString()));
    }
    entries.push_back(entry);
  }
  uint64_t applied = 0;
  OwnerState::Action action(call.state, Cause::kTransfer);
  for (const Entry& entry : entries) {
    const std::string_view key = redis::TextOf(entry.key);
    // A wave of the migration that is committed already: its ranges are no transfer's any more.
    if (!transfer->open.Contains(call.state.PointOf(key))) continue;
    RETURN_IF_ERROR(ApplyEntry(call, entry));
    action.Touch(key);
    ++applied;
  }
  call.Number(applied);
  return absl::OkStatus();
}

// WR.FORGOTTEN <gen> <cursor> <count>
absl::Status Forgotten(Call& call) {
  ASSIGN_OR_RETURN(const uint64_t cursor, call.words.Number("cursor", 0, UINT64_MAX));
  ASSIGN_OR_RETURN(const size_t count, ParseCount(call));
  RETURN_IF_ERROR(call.words.Finish());
  const ForgottenLog::Page page = call.state.forgotten().Read(cursor, count);
  call.Array(2);
  call.Number(page.next);
  call.Keys(page.keys);
  return absl::OkStatus();
}

std::string RedisVersion() {
  const auto version = static_cast<unsigned int>(redis::api.GetServerVersion());
  return fmt::format("{}.{}.{}", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

uint64_t LeaseMs(const OwnerView& view) {
  const Instant now = BootNow();
  if (!view.HasLease(now)) return 0;
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(*view.lease_until() - now));
}

// WR.STAT <gen>
absl::Status Stat(Call& call) {
  RETURN_IF_ERROR(call.words.Finish());
  OwnerState& state = call.state;
  const OwnerCounters& counters = state.counters();
  const std::vector<std::pair<std::string_view, uint64_t>> numbers = {
      {"version", state.has_map() ? state.view().membership()->version().value : 0},
      {"lease_ms", LeaseMs(state.view())},
      {"keys", redis::api.DbSize(call.context)},
      {"tracked", state.changes().transfers()},
      {"log_bytes", state.changes().bytes()},
      {"log_position", state.changes().end()},
      {"dirty_keys", state.dirty_keys()},
      {"refused_stale", counters.refused_stale},
      {"refused_moved", counters.refused_moved},
      {"refused_nolease", counters.refused_nolease},
      {"refused_fencing", counters.refused_fencing},
      {"refused_behind", counters.refused_behind},
      {"refused_history", counters.refused_history},
      {"fills_stored", counters.fills_stored},
      {"fills_void", counters.fills_void},
      {"forgets", counters.forgets},
      {"faults", counters.faults + state.forgotten().dropped()}};
  call.Array(2 * numbers.size() + 4);
  call.Text("incarnation");
  call.Text(state.incarnation().ToString());
  for (const auto& [name, value] : numbers) {
    call.Text(name);
    call.Number(value);
  }
  call.Text("redis_version");
  call.Text(RedisVersion());
  return absl::OkStatus();
}

absl::Status CheckGeneration(Call& call) {
  ASSIGN_OR_RETURN(const uint64_t generation, call.words.Number("generation", 0, UINT64_MAX));
  if (!call.state.bound()) {
    return Coded("WRGENERATION", "this owner is not attached: send WR.ATTACH");
  }
  if (generation != call.state.generation()) {
    return Coded("WRGENERATION",
                 fmt::format("{} is not the present generation {}: another agent has attached, or "
                             "this owner was restarted",
                             generation, call.state.generation()));
  }
  return absl::OkStatus();
}

using Handler = absl::Status (*)(Call&);

enum class Needs { kNothing, kAttached, kMap };

template <Needs kNeeds>
absl::Status CheckNeeds(Call& call) {
  if (!TheModule().is_master) {
    return Coded("READONLY", "this server is a replica: attach to its master");
  }
  if (redis::api.GetSelectedDb(call.context) != 0) {
    return absl::FailedPreconditionError(
        "the keyspace is database 0 of this server: SELECT 0 first");
  }
  if (kNeeds == Needs::kNothing) return absl::OkStatus();
  RETURN_IF_ERROR(CheckGeneration(call));
  if (kNeeds == Needs::kMap && !call.state.has_map()) {
    return absl::FailedPreconditionError("no map is installed: send WR.MAP first");
  }
  return absl::OkStatus();
}

// What the server calls: the handler, and its error as a reply.
template <Handler kHandler, Needs kNeeds>
int Run(redis::Context* context, redis::String** argv, int argc) {
  Call call{context, Arguments(argv, argc), TheModule().state};
  absl::Status status = CheckNeeds<kNeeds>(call);
  if (status.ok()) status = kHandler(call);
  if (status.ok()) return redis::kOk;
  const bool coded = status.code() == absl::StatusCode::kAborted;
  return ReplyError(context, fmt::format("{}{}", coded ? "" : "ERR ", MessageOf(status)));
}

}  // namespace

bool RegisterAgentCommands(redis::Context* context) {
  const auto create = [&](const char* name, redis::CommandFunction function, const char* flags) {
    return redis::api.CreateCommand(context, name, function, flags, 0, 0, 0) == redis::kOk;
  };
  constexpr const char* kAdmin = "admin deny-script";
  constexpr const char* kWrite = "write admin deny-script";
  return create("wr.attach", Run<Attach, Needs::kNothing>, kAdmin) &&
         create("wr.map", Run<Map, Needs::kAttached>, kAdmin) &&
         create("wr.renew", Run<Renew, Needs::kAttached>, kAdmin) &&
         create("wr.grant", Run<Grant, Needs::kAttached>, kAdmin) &&
         create("wr.fence", Run<Fence, Needs::kAttached>, kAdmin) &&
         create("wr.track", Run<Track, Needs::kMap>, kAdmin) &&
         create("wr.untrack", Run<Untrack, Needs::kAttached>, kAdmin) &&
         create("wr.changes", Run<Changes, Needs::kAttached>, kAdmin) &&
         create("wr.scan", Run<ScanTracked, Needs::kMap>, kAdmin) &&
         create("wr.dump", Run<Dump, Needs::kAttached>, kAdmin) &&
         create("wr.digest", Run<Digest, Needs::kAttached>, kAdmin) &&
         create("wr.dirty", Run<Dirty, Needs::kAttached>, kAdmin) &&
         create("wr.open", Run<Open, Needs::kMap>, kAdmin) &&
         create("wr.close", Run<Close, Needs::kAttached>, kAdmin) &&
         create("wr.purge", Run<Purge, Needs::kAttached>, kWrite) &&
         create("wr.apply", Run<Apply, Needs::kMap>, kWrite) &&
         create("wr.forgotten", Run<Forgotten, Needs::kAttached>, kAdmin) &&
         create("wr.stat", Run<Stat, Needs::kAttached>, kAdmin);
}

}  // namespace warmring
