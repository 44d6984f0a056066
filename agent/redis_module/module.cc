#include "agent/redis_module/module.h"

#include <time.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/base/clock_rate.h"
#include "core/base/ids.h"

namespace warmring {
namespace {

constexpr int kModuleVersion = 1;
constexpr int kApiVersion = 1;
constexpr int kOldestServer = 0x00070000;
constexpr std::string_view kDatasetReplaced = "the dataset was replaced";

// Never destroyed: the server may still call us while it exits.
RedisModule* the_module = nullptr;

#ifdef WARMRING_FAILPOINTS
// Set before the first reading.
ClockRate the_clock_rate;

// The environment variable WARMRING_CLOCK_RATE. Returns what is wrong with it, or an empty string.
std::string ReadClockRate() {
  const char* const text = std::getenv("WARMRING_CLOCK_RATE");
  const absl::StatusOr<ClockRate> rate = ClockRate::Parse(text == nullptr ? "" : text);
  if (!rate.ok()) return std::string(rate.status().message());
  the_clock_rate = *rate;
  return "";
}

Instant AtRate(Instant now) {
  static const Instant anchor = now;
  return the_clock_rate.Scale(anchor, now);
}
#else
std::string ReadClockRate() { return ""; }
Instant AtRate(Instant now) { return now; }
#endif

uint64_t RandomNumber() {
  std::array<unsigned char, 8> bytes{};
  redis::api.GetRandomBytes(bytes.data(), bytes.size());
  uint64_t number = 0;
  for (const unsigned char byte : bytes) number = (number << 8) | byte;
  return number;
}

void LogNotice(redis::Context* context, const std::string& text) {
  redis::api.Log(context, "notice", "%s", text.c_str());
}

int Refuse(redis::Context* context, const std::string& text) {
  redis::api.Log(context, "warning", "%s", text.c_str());
  return redis::kError;
}

int OnKeyEvent(redis::Context* context, int type, const char* event, redis::String* key) {
  static_cast<void>(event);
  if (!the_module->is_master || redis::api.GetSelectedDb(context) != 0) return redis::kOk;
  if ((type & (redis::kEventExpired | redis::kEventEvicted)) != 0) {
    the_module->state.NoteVanished(redis::TextOf(key));
  } else {
    the_module->state.NoteChange(redis::TextOf(key));
  }
  return redis::kOk;
}

void OnRoleChange(redis::Context* context, redis::ServerEvent, uint64_t role, void*) {
  the_module->is_master = role == redis::kRoleNowMaster;
  the_module->state.StartOver(FreshIncarnation());
  LogNotice(context,
            "the replication role changed: a new incarnation, closed until an "
            "agent attaches");
}

// At the start of the server, before anybody could attach; later for DEBUG RELOAD and its like.
void OnLoading(redis::Context*, redis::ServerEvent, uint64_t, void*) {
  if (the_module->state.bound()) the_module->state.StartOver(FreshIncarnation());
}

void OnDatasetReplaced(redis::Context*, redis::ServerEvent, uint64_t, void*) {
  the_module->state.NoteLoss(kDatasetReplaced);
}

std::optional<size_t> ParseSize(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The arguments of loadmodule. Returns what is wrong with them, or an empty string.
std::string ParseLimits(redis::String** argv, int argc, OwnerLimits& limits) {
  for (int i = 0; i < argc; i += 2) {
    const std::string_view name = redis::TextOf(argv[i]);
    const std::string_view text = i + 1 < argc ? redis::TextOf(argv[i + 1]) : "";
    const std::optional<size_t> value = ParseSize(text);
    if (name != "changes-max-bytes" && name != "dirty-max-keys") {
      return fmt::format("unknown argument '{}': use changes-max-bytes N, dirty-max-keys N",
                         Printable(name));
    }
    if (!value || *value == 0) {
      return fmt::format("{}: '{}' is not a number above 0", name, Printable(text));
    }
    (name == "dirty-max-keys" ? limits.dirty_max_keys : limits.changes_max_bytes) = *value;
  }
  return "";
}

bool Subscribe(redis::Context* context) {
  constexpr int kChanges = redis::kEventGeneric | redis::kEventString | redis::kEventList |
                           redis::kEventSet | redis::kEventHash | redis::kEventZset |
                           redis::kEventExpired | redis::kEventEvicted | redis::kEventStream |
                           redis::kEventModule;
  const auto on_server = [&](const redis::ServerEvent& event, redis::ServerEventFunction function) {
    return redis::api.SubscribeToServerEvent(context, event, function) == redis::kOk;
  };
  return redis::api.SubscribeToKeyspaceEvents(context, kChanges, OnKeyEvent) == redis::kOk &&
         on_server(redis::kRoleChanged, OnRoleChange) && on_server(redis::kLoading, OnLoading) &&
         on_server(redis::kFlushed, OnDatasetReplaced) &&
         on_server(redis::kSwapped, OnDatasetReplaced);
}

int Load(redis::Context* context, redis::String** argv, int argc) {
  const int server = redis::api.GetServerVersion();
  if (server < kOldestServer) return Refuse(context, "Redis 7.0 or later is needed");
  const int flags = redis::api.GetContextFlags(context);
  if ((flags & redis::kFlagCluster) != 0) {
    return Refuse(context,
                  "this server runs in cluster mode: set cluster-enabled no, placement is "
                  "Warmring's");
  }
  OwnerLimits limits;
  const std::string wrong = ParseLimits(argv, argc, limits);
  if (!wrong.empty()) return Refuse(context, wrong);
  if (const std::string rate = ReadClockRate(); !rate.empty()) return Refuse(context, rate);

  // 31 bits: any integer of any client holds it, and what is added.
  const uint64_t generation = RandomNumber() >> 33;
  the_module = new RedisModule{
      OwnerState(FreshIncarnation(), generation, limits), {}, (flags & redis::kFlagSlave) == 0};
  if (!the_module->commands.Init(redis::api.GetDetachedThreadSafeContext(context))) {
    return Refuse(context,
                  "this server does not answer COMMAND INFO: do not rename COMMAND, writes "
                  "could not be told from reads");
  }
  if (!RegisterClientCommands(context) || !RegisterAgentCommands(context) || !Subscribe(context) ||
      !RegisterCommandFilter(context)) {
    return Refuse(context, "the server refused a command or a hook");
  }
  LogNotice(context, fmt::format("incarnation {}, closed until an agent attaches",
                                 the_module->state.incarnation().ToString()));
  return redis::kOk;
}

}  // namespace

RedisModule& TheModule() { return *the_module; }

Instant BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return AtRate({now.tv_sec * 1'000'000'000 + now.tv_nsec});
}

Incarnation FreshIncarnation() { return Incarnation{{RandomNumber(), RandomNumber()}}; }

}  // namespace warmring

extern "C" {

// What the server calls after dlopen, with the arguments of the loadmodule line.
__attribute__((visibility("default"))) int RedisModule_OnLoad(warmring::redis::Context* context,
                                                              warmring::redis::String** argv,
                                                              int argc) {
  if (warmring::redis::LoadApi(context) != nullptr) return warmring::redis::kError;
  if (warmring::redis::api.IsModuleNameBusy("warmring") != 0) return warmring::redis::kError;
  warmring::redis::api.SetModuleAttribs(context, "warmring", warmring::kModuleVersion,
                                        warmring::kApiVersion);
  return warmring::Load(context, argv, argc);
}

// Unloading would open the fences of a server that goes on serving.
__attribute__((visibility("default"))) int RedisModule_OnUnload(warmring::redis::Context*) {
  return warmring::redis::kError;
}
}
