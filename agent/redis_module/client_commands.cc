#include <errno.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "agent/redis_module/failpoint.h"
#include "agent/redis_module/module.h"
#include "core/base/ids.h"

// The commands that clients send, and WR.PLAIN, which the filter puts in front of their plain
// writes (docs/protocol.md, section 2.1).

namespace warmring {
namespace {

using redis::Reply;

// What stands after the code, the word, the version and the address of a refusal.
struct RefusalText {
  const char* code;
  const char* text;
};

RefusalText TextFor(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAdmit:
      break;
    case Verdict::kNoLease:
      return {"WRNOLEASE", "this owner holds no lease now: retry later"};
    case Verdict::kWrongHistory:
      return {"WRHISTORY", "the epoch is of another history: refresh"};
    case Verdict::kNotOwner:
      return {"WRMOVED", "another node owns this key: refresh"};
    case Verdict::kStaleEpoch:
      return {"WRSTALE", "the range has a newer epoch: refresh"};
    case Verdict::kOwnerBehind:
      return {"WRBEHIND", "this owner has not seen that epoch yet: retry later"};
    case Verdict::kFencing:
      return {"WRFENCING", "the range is changing hands: retry later"};
  }
  return {"ERR", "admitted"};
}

void Count(OwnerCounters& counters, Verdict verdict) {
  switch (verdict) {
    case Verdict::kAdmit:
      break;
    case Verdict::kNoLease:
      ++counters.refused_nolease;
      break;
    case Verdict::kWrongHistory:
      ++counters.refused_history;
      break;
    case Verdict::kNotOwner:
      ++counters.refused_moved;
      break;
    case Verdict::kStaleEpoch:
      ++counters.refused_stale;
      break;
    case Verdict::kOwnerBehind:
      ++counters.refused_behind;
      break;
    case Verdict::kFencing:
      ++counters.refused_fencing;
      break;
  }
}

int ReplyRefusal(redis::Context* context, const Admission& admission) {
  OwnerState& state = TheModule().state;
  Count(state.counters(), admission.verdict);
  std::string word = "-";
  std::string address = "-";
  if (admission.owner) {
    word = FormatEpochWord(state.view().history(), admission.epoch);
    address = state.view().membership()->nodes()[*admission.owner].address;
  }
  const RefusalText refusal = TextFor(admission.verdict);
  return ReplyError(context, fmt::format("{} {} {} {} {}", refusal.code, word,
                                         admission.version.value, address, refusal.text));
}

Admission NotBound() {
  Admission admission;
  admission.verdict = Verdict::kNoLease;
  return admission;
}

int ReplyArity(redis::Context* context, std::string_view command) {
  return ReplyError(context,
                    fmt::format("ERR wrong number of arguments for '{}'", Printable(command)));
}

bool InKeyspace(redis::Context* context) { return redis::api.GetSelectedDb(context) == 0; }

int ReplyWrongDb(redis::Context* context) {
  return ReplyError(context, "ERR the keyspace is database 0 of this server: SELECT 0 first");
}

int ReplyBadWord(redis::Context* context, const absl::Status& status) {
  return ReplyError(context, fmt::format("ERR {}", std::string(status.message())));
}

Reply CallClientCommand(redis::Context* context, redis::String** argv, int argc) {
  // The texts of the server end with a zero.
  const char* const name = redis::TextOf(argv[0]).data();
  return Reply(redis::api.Call(context, name, "!0CEMv", argv + 1, static_cast<size_t>(argc - 1)));
}

int ReplyWith(redis::Context* context, std::string_view command, const Reply& reply) {
  if (!reply.IsMissing()) return redis::api.ReplyWithCallReply(context, reply.get());
  return ReplyError(context, fmt::format("ERR '{}' cannot be called", Printable(command)));
}

int RunAdmitted(redis::Context* context, redis::String** argv, int argc,
                const std::vector<redis::String*>& keys) {
  WARMRING_FP("module.write.admitted");
  OwnerState::Action action(TheModule().state, Cause::kAdmitted);
  const Reply reply = CallClientCommand(context, argv, argc);
  for (const redis::String* key : keys) action.Touch(redis::TextOf(key));
  WARMRING_FP("module.write.done");
  return ReplyWith(context, redis::TextOf(argv[0]), reply);
}

// Where this node holds the range and nothing is about to change, the delete needs no second home.
void ForwardIfNeeded(std::string_view key, Verdict refusal) {
  OwnerState& state = TheModule().state;
  if (!state.has_map()) return;
  const KeyPoint point = state.PointOf(key);
  const bool behind = refusal == Verdict::kOwnerBehind || refusal == Verdict::kWrongHistory;
  if (!behind && state.view().AdmitPlain(point, BootNow()).ok()) return;
  state.forgotten().Add(state.view(), key, point);
}

// In a cache a delete is never refused before it takes effect: an application that gives up would
// leave the key stale for ever. It is applied here and answered as refused, and the client repeats
// it at the present owner.
int RunRefusedDelete(redis::Context* context, redis::String** argv, int argc,
                     const std::vector<redis::String*>& keys, const Admission& refusal) {
  OwnerState& state = TheModule().state;
  {
    OwnerState::Action action(state, Cause::kRefusedDelete);
    const Reply reply = CallClientCommand(context, argv, argc);
    if (reply.IsError()) return ReplyWith(context, redis::TextOf(argv[0]), reply);
    for (const redis::String* key : keys) action.Touch(redis::TextOf(key));
  }
  for (const redis::String* key : keys) ForwardIfNeeded(redis::TextOf(key), refusal.verdict);
  return ReplyRefusal(context, refusal);
}

int RunChecked(redis::Context* context, redis::String** argv, int argc,
               const std::vector<redis::String*>& keys, bool is_delete,
               const Admission& admission) {
  if (admission.ok()) return RunAdmitted(context, argv, argc, keys);
  if (is_delete) return RunRefusedDelete(context, argv, argc, keys, admission);
  return ReplyRefusal(context, admission);
}

// WR.WRITE <word> CMD key ...
int Write(redis::Context* context, redis::String** argv, int argc) {
  if (argc < 4) return ReplyArity(context, "wr.write");
  const absl::StatusOr<EpochWord> word = EpochWord::Parse(redis::TextOf(argv[1]));
  if (!word.ok()) return ReplyBadWord(context, word.status());
  const std::string_view command = redis::TextOf(argv[2]);
  if (!IsSingleKeyWrite(command, argc - 2)) {
    return ReplyError(context, fmt::format("ERR '{}' is not a write command with one key that "
                                           "WR.WRITE allows",
                                           Printable(command)));
  }
  if (!InKeyspace(context)) return ReplyWrongDb(context);
  const OwnerState& state = TheModule().state;
  Admission admission = NotBound();
  if (state.bound()) {
    const KeyPoint point = state.has_map() ? state.PointOf(redis::TextOf(argv[3])) : KeyPoint();
    admission = state.view().AdmitWrite(point, *word, BootNow());
  }
  return RunChecked(context, argv + 2, argc - 2, {argv[3]}, IsDelete(command), admission);
}

// What both kinds of reads have in front: word, command, key. Null when the answer was given.
std::optional<EpochWord> ParseRead(redis::Context* context, std::string_view name,
                                   redis::String** argv, int argc) {
  if (argc < 4) {
    ReplyArity(context, name);
    return std::nullopt;
  }
  const absl::StatusOr<EpochWord> word = EpochWord::Parse(redis::TextOf(argv[1]));
  if (!word.ok()) {
    ReplyBadWord(context, word.status());
    return std::nullopt;
  }
  const std::string_view command = redis::TextOf(argv[2]);
  if (!IsSingleKeyRead(command, argc - 2)) {
    ReplyError(context, fmt::format("ERR '{}' is not a read command with one key that {} allows",
                                    Printable(command), name));
    return std::nullopt;
  }
  if (!InKeyspace(context)) {
    ReplyWrongDb(context);
    return std::nullopt;
  }
  // What a new incarnation found on disk may be older than what was deleted since.
  if (!TheModule().state.bound() || TheModule().state.purge_due()) {
    ReplyRefusal(context, NotBound());
    return std::nullopt;
  }
  return *word;
}

KeyPoint PointOfKey(const redis::String* key) {
  const OwnerState& state = TheModule().state;
  return state.has_map() ? state.PointOf(redis::TextOf(key)) : KeyPoint();
}

// WR.READ <word> CMD key ...
int Read(redis::Context* context, redis::String** argv, int argc) {
  const std::optional<EpochWord> word = ParseRead(context, "wr.read", argv, argc);
  if (!word) return redis::kOk;
  const OwnerState& state = TheModule().state;
  const KeyPoint point = PointOfKey(argv[3]);
  const Admission admission = state.view().AdmitRead(point, *word);
  if (!admission.ok()) return ReplyRefusal(context, admission);

  const Reply reply = CallClientCommand(context, argv + 2, argc - 2);
  if (reply.IsError()) return ReplyWith(context, redis::TextOf(argv[2]), reply);
  const bool miss = redis::api.KeyExists(context, argv[3]) == 0;
  redis::api.ReplyWithArray(context, 3);
  redis::api.ReplyWithCallReply(context, reply.get());
  if (miss) {
    redis::ReplyText(context, state.tokens().Issue(point.hash, admission.epoch));
  } else {
    redis::api.ReplyWithNull(context);
  }
  const bool peek = miss && state.MayPeek(redis::TextOf(argv[3]), point, BootNow());
  return redis::api.ReplyWithLongLong(context, peek ? 1 : 0);
}

// WR.PEEK <word> CMD key ...
int Peek(redis::Context* context, redis::String** argv, int argc) {
  const std::optional<EpochWord> word = ParseRead(context, "wr.peek", argv, argc);
  if (!word) return redis::kOk;
  const Admission admission = TheModule().state.view().AdmitPeek(PointOfKey(argv[3]), *word);
  if (!admission.ok()) return ReplyRefusal(context, admission);

  const Reply reply = CallClientCommand(context, argv + 2, argc - 2);
  if (reply.IsError()) return ReplyWith(context, redis::TextOf(argv[2]), reply);
  long long remaining = -2;
  redis::Key* const key =
      redis::api.OpenKey(context, argv[3], redis::kOpenRead | redis::kOpenNoTouch);
  if (key != nullptr) {
    remaining = redis::api.GetExpire(key);  // -1: none
    redis::api.CloseKey(key);
  }
  redis::api.ReplyWithArray(context, 2);
  redis::api.ReplyWithCallReply(context, reply.get());
  return redis::api.ReplyWithLongLong(context, remaining);
}

std::optional<long long> ParseMillis(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 ? std::optional(value) : std::nullopt;
}

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

int ReplyVoidFill(redis::Context* context) {
  ++TheModule().state.counters().fills_void;
  return redis::api.ReplyWithLongLong(context, 0);
}

// WR.FILL <word> <token> key value [PX <ms>]
int Fill(redis::Context* context, redis::String** argv, int argc) {
  if (argc != 5 && argc != 7) return ReplyArity(context, "wr.fill");
  const absl::StatusOr<EpochWord> word = EpochWord::Parse(redis::TextOf(argv[1]));
  if (!word.ok()) return ReplyBadWord(context, word.status());
  std::optional<long long> millis;
  if (argc == 7) {
    millis = ParseMillis(redis::TextOf(argv[6]));
    if (!EqualsIgnoringCase(redis::TextOf(argv[5]), "px") || !millis) {
      return ReplyError(context, fmt::format("ERR '{} {}': use PX and a number of milliseconds "
                                             "above 0",
                                             Printable(redis::TextOf(argv[5])),
                                             Printable(redis::TextOf(argv[6]))));
    }
  }
  if (!InKeyspace(context)) return ReplyWrongDb(context);
  OwnerState& state = TheModule().state;
  if (!state.bound()) return ReplyRefusal(context, NotBound());

  const KeyPoint point = PointOfKey(argv[3]);
  const Admission admission = state.view().AdmitWrite(point, *word, BootNow());
  if (!admission.ok() ||
      !state.tokens().IsValid(redis::TextOf(argv[2]), point.hash, admission.epoch)) {
    return ReplyVoidFill(context);
  }
  OwnerState::Action action(state, Cause::kAdmitted);
  const Reply reply(
      millis ? redis::api.Call(context, "SET", "!CEMssccl", argv[3], argv[4], "NX", "PX", *millis)
             : redis::api.Call(context, "SET", "!CEMssc", argv[3], argv[4], "NX"));
  if (reply.IsError()) return ReplyWith(context, "SET", reply);
  if (reply.Is(redis::kReplyNull)) return ReplyVoidFill(context);
  action.Touch(redis::TextOf(argv[3]));
  ++state.counters().fills_stored;
  return redis::api.ReplyWithLongLong(context, 1);
}

// WR.FORGET key
int Forget(redis::Context* context, redis::String** argv, int argc) {
  if (argc != 2) return ReplyArity(context, "wr.forget");
  if (!InKeyspace(context)) return ReplyWrongDb(context);
  OwnerState& state = TheModule().state;
  OwnerState::Action action(state, Cause::kForget);
  const Reply reply(redis::api.Call(context, "DEL", "!CEs", argv[1]));
  if (reply.IsError()) return ReplyWith(context, "DEL", reply);
  action.Touch(redis::TextOf(argv[1]));
  ++state.counters().forgets;
  return redis::api.ReplyWithLongLong(context, reply.integer());
}

// The keys that a plain write names; empty when they cannot be told.
std::vector<redis::String*> KeysOf(redis::Context* context, PlainKind kind, redis::String** argv,
                                   int argc) {
  if (kind == PlainKind::kSingleKeyWrite && argc >= 2) return {argv[1]};
  if (kind == PlainKind::kDelete) return {argv + 1, argv + argc};
  std::vector<redis::String*> keys;
  int count = 0;
  int* const positions = redis::api.GetCommandKeys(context, argv, argc, &count);
  for (int i = 0; i < count && positions != nullptr; ++i) keys.push_back(argv[positions[i]]);
  redis::api.Free(positions);
  return keys;
}

bool HasWord(redis::String** argv, int from, int to, std::string_view lower) {
  return std::any_of(argv + std::min(from, to), argv + to, [&](const redis::String* word) {
    return EqualsIgnoringCase(redis::TextOf(word), lower);
  });
}

// Whether an option of the command leads out of what can be watched: COPY to another database,
// XREADGROUP that waits. The words behind STREAMS are keys and ids.
bool HasForbiddenOption(std::string_view command, redis::String** argv, int argc) {
  if (EqualsIgnoringCase(command, "copy")) return HasWord(argv, 3, argc, "db");
  if (!EqualsIgnoringCase(command, "xreadgroup")) return false;
  const auto* const streams = std::find_if(argv, argv + argc, [](const redis::String* word) {
    return EqualsIgnoringCase(redis::TextOf(word), "streams");
  });
  return HasWord(argv, 1, static_cast<int>(streams - argv), "block");
}

// All keys must be admissible; the answer for the first that is not.
Admission AdmitAll(const std::vector<redis::String*>& keys) {
  const OwnerState& state = TheModule().state;
  Admission admission = NotBound();
  const Instant now = BootNow();
  for (const redis::String* key : keys) {
    if (!state.bound()) break;
    admission = state.view().AdmitPlain(PointOfKey(key), now);
    if (!admission.ok()) break;
  }
  return admission;
}

// WR.PLAIN CMD ...: a plain write of an unmodified client, at the moment when it runs.
int Plain(redis::Context* context, redis::String** argv, int argc) {
  if (argc < 2) return ReplyArity(context, "wr.plain");
  RedisModule& module = TheModule();
  ++argv;
  --argc;
  const std::string_view command = redis::TextOf(argv[0]);
  const PlainKind kind = module.commands.Find(command, argc > 1 ? redis::TextOf(argv[1]) : "");
  // Queued before this server became a replica.
  if (!module.is_master) {
    return ReplyWith(context, command, CallClientCommand(context, argv, argc));
  }
  if (kind == PlainKind::kPass) {
    return ReplyError(context, fmt::format("ERR '{}' is not a write", Printable(command)));
  }
  if (kind == PlainKind::kBlocking) {
    return ReplyError(context, fmt::format("ERR '{}' may wait for another client, which a fenced "
                                           "range does not allow: use the command that does not "
                                           "block",
                                           Printable(command)));
  }
  if (kind == PlainKind::kRefused || HasForbiddenOption(command, argv, argc)) {
    return ReplyError(context, fmt::format("ERR '{}' changes keys past their owner's ranges and is "
                                           "refused on a node of a keyspace",
                                           Printable(command)));
  }
  if (!InKeyspace(context)) return ReplyWrongDb(context);
  const std::vector<redis::String*> keys = KeysOf(context, kind, argv, argc);
  if (keys.empty()) return ReplyArity(context, command);
  return RunChecked(context, argv, argc, keys, kind == PlainKind::kDelete, AdmitAll(keys));
}

}  // namespace

bool RegisterClientCommands(redis::Context* context) {
  const auto create = [&](const char* name, redis::CommandFunction function, const char* flags,
                          int key) {
    return redis::api.CreateCommand(context, name, function, flags, key, key, key > 0 ? 1 : 0) ==
           redis::kOk;
  };
  return create("wr.write", Write, "write", 3) && create("wr.read", Read, "readonly", 3) &&
         create("wr.fill", Fill, "write deny-oom", 3) && create("wr.forget", Forget, "write", 1) &&
         create("wr.peek", Peek, "readonly", 3) && create("wr.plain", Plain, "write", 0);
}

}  // namespace warmring
