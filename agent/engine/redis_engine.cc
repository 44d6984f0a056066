#include "agent/engine/redis_engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "client/base/boot_clock.h"
#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "fmt/format.h"

namespace warmring {
namespace {

// One WR.APPLY holds up the engine's only thread: it is kept short.
constexpr size_t kApplyKeys = 64;
constexpr size_t kApplyBytes = 256 << 10;

std::string Hex(uint64_t point) { return fmt::format("{:016x}", point); }

void AppendRanges(const HashRangeSet& set, std::vector<std::string>* arguments) {
  const std::vector<HashRange> ranges = set.Ranges();
  arguments->push_back(std::to_string(ranges.size()));
  for (const HashRange& range : ranges) {
    arguments->push_back(range.plane == kCommonPlane
                             ? Hex(range.start)
                             : fmt::format("{}:{}", range.plane, Hex(range.start)));
    arguments->push_back(Hex(range.end));
  }
}

// What an error reply means to the agent.
absl::Status ErrorOf(const std::string& address, const std::string& text) {
  const std::string message = fmt::format("redis {}: {}", address, text);
  const std::string_view code = std::string_view(text).substr(0, text.find(' '));
  if (code == "WRGENERATION") return absl::AbortedError(message);
  if (code == "WRVOID") return absl::CancelledError(message);
  if (code == "WRSUSPECT") return absl::DataLossError(message);
  if (code == "WRPAYLOAD") return absl::InvalidArgumentError(message);
  if (code == "OOM") return absl::ResourceExhaustedError(message);
  if (code == "LOADING" || code == "BUSY" || code == "MASTERDOWN") {
    return absl::UnavailableError(message);
  }
  if (text.starts_with("ERR unknown command")) {
    return absl::FailedPreconditionError(fmt::format(
        "redis {}: it has not loaded warmring-redis.so; start it with --loadmodule", address));
  }
  return absl::FailedPreconditionError(message);
}

absl::Status Unexpected(std::string_view what) {
  return absl::InternalError(fmt::format("redis: the reply has no {}", what));
}

const RedisReply* ElementOf(const RedisReply& reply, size_t index) {
  return index < reply.elements.size() ? &reply.elements[index] : nullptr;
}

// Numbers come as integers, or as strings where they may not fit one.
template <typename Number>
absl::StatusOr<Number> NumberOf(const RedisReply* reply, std::string_view what) {
  if (reply == nullptr) return Unexpected(what);
  if (reply->type == RedisReply::Type::kInteger) return static_cast<Number>(reply->integer);
  Number number = 0;
  const char* const begin = reply->text.data();
  const char* const end = begin + reply->text.size();
  if (reply->text.empty() || std::from_chars(begin, end, number).ptr != end) {
    return Unexpected(what);
  }
  return number;
}

absl::StatusOr<std::string> TextOf(const RedisReply* reply, std::string_view what) {
  if (reply == nullptr || reply->text.empty()) return Unexpected(what);
  return reply->text;
}

absl::StatusOr<std::vector<std::string>> KeysOf(RedisReply* reply, size_t index) {
  if (index >= reply->elements.size()) return Unexpected("list of keys");
  std::vector<std::string> keys;
  keys.reserve(reply->elements[index].elements.size());
  for (RedisReply& key : reply->elements[index].elements) keys.push_back(std::move(key.text));
  return keys;
}

absl::StatusOr<KeyPage> PageOf(RedisReply reply, size_t first) {
  KeyPage page;
  ASSIGN_OR_RETURN(page.next, NumberOf<uint64_t>(ElementOf(reply, first), "cursor"));
  ASSIGN_OR_RETURN(page.keys, KeysOf(&reply, first + 1));
  return page;
}

absl::StatusOr<LogPosition> PositionOf(const RedisReply& reply) {
  LogPosition position;
  ASSIGN_OR_RETURN(position.log_id, TextOf(ElementOf(reply, 0), "log id"));
  ASSIGN_OR_RETURN(position.position, NumberOf<uint64_t>(ElementOf(reply, 1), "log position"));
  return position;
}

// Splits the lines `field:value` of INFO.
std::string FieldOf(std::string_view info, std::string_view field) {
  while (!info.empty()) {
    const size_t end = std::min(info.find("\r\n"), info.size());
    const std::string_view line = info.substr(0, end);
    if (line.size() > field.size() && line.starts_with(field) && line[field.size()] == ':') {
      return std::string(line.substr(field.size() + 1));
    }
    info.remove_prefix(std::min(end + 2, info.size()));
  }
  return "";
}

}  // namespace

uint32_t RdbVersionOf(std::string_view redis_version) {
  struct Known {
    std::string_view prefix;
    uint32_t rdb;
  };
  constexpr std::array<Known, 8> kVersions = {{{"5.", 9},
                                               {"6.", 9},
                                               {"7.0.", 10},
                                               {"7.1.", 10},
                                               {"7.2.", 11},
                                               {"7.3.", 12},
                                               {"7.4.", 12},
                                               {"8.", 12}}};
  for (const Known& known : kVersions) {
    if (redis_version.starts_with(known.prefix)) return known.rdb;
  }
  return 0;
}

uint32_t PayloadRdbVersion(std::string_view payload) {
  constexpr size_t kFooter = 10;  // two bytes of version, eight of checksum
  if (payload.size() < kFooter) return 0;
  const auto low = static_cast<unsigned char>(payload[payload.size() - kFooter]);
  const auto high = static_cast<unsigned char>(payload[payload.size() - kFooter + 1]);
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 8;
}

RedisEngine::RedisEngine(RedisEngineOptions options)
    : options_(std::move(options)), pool_([this] {
        RedisPoolOptions pool;
        pool.connect_timeout = options_.connect_timeout;
        pool.command_timeout = options_.timeout;
        return pool;
      }()) {}

std::string RedisEngine::Generation() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::to_string(generation_);
}

absl::StatusOr<std::vector<RedisReply>> RedisEngine::Send(
    const std::string& address, const std::vector<std::vector<std::string_view>>& commands) {
  const Instant deadline = BootNow() + options_.connect_timeout + options_.timeout;
  for (int attempt = 0;; ++attempt) {
    ASSIGN_OR_RETURN(RedisPool::Lease lease, pool_.Acquire(address, deadline));
    auto replies = lease->Pipeline(commands);
    // Every command of the agent may be sent twice.
    if (replies.ok() || !lease.reused() || attempt > 0) return replies;
    pool_.DropIdle(address);
  }
}

absl::StatusOr<RedisReply> RedisEngine::Call(std::string_view name, const Arguments& arguments) {
  for (int attempt = 0;; ++attempt) {
    const std::string generation = Generation();
    std::vector<std::string_view> command = {name, generation};
    command.insert(command.end(), arguments.begin(), arguments.end());
    ASSIGN_OR_RETURN(std::vector<RedisReply> replies, Send(options_.address, {command}));
    RedisReply reply = std::move(replies.front());
    if (!reply.IsError()) return reply;
    absl::Status error = ErrorOf(options_.address, reply.text);
    if (absl::IsAborted(error) && attempt == 0 && generation != Generation()) continue;
    return error;
  }
}

absl::StatusOr<std::string> RedisEngine::Info(std::string_view section, std::string_view field) {
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies,
                   Send(options_.address, {{"INFO", section}}));
  if (replies.front().IsError()) return ErrorOf(options_.address, replies.front().text);
  return FieldOf(replies.front().text, field);
}

absl::StatusOr<CacheEngine::Attachment> RedisEngine::Attach(const HistoryId& history,
                                                            const KeyspaceId& keyspace,
                                                            const NodeId& node,
                                                            OnRestart on_restart) {
  const std::string history_text = history.ToString();
  const std::string_view policy = on_restart == OnRestart::kTrust ? "trust" : "purge";
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies,
                   Send(options_.address, {{"WR.ATTACH", history_text, keyspace, node, policy}}));
  const RedisReply& reply = replies.front();
  if (reply.IsError()) return ErrorOf(options_.address, reply.text);
  Attachment attachment;
  ASSIGN_OR_RETURN(const std::string incarnation, TextOf(ElementOf(reply, 0), "incarnation"));
  ASSIGN_OR_RETURN(const Id128 id, Id128::Parse(incarnation));
  attachment.incarnation = Incarnation{id};
  ASSIGN_OR_RETURN(const auto generation, NumberOf<uint64_t>(ElementOf(reply, 1), "generation"));
  ASSIGN_OR_RETURN(attachment.keys, NumberOf<uint64_t>(ElementOf(reply, 2), "number of keys"));
  ASSIGN_OR_RETURN(const auto due, NumberOf<int64_t>(ElementOf(reply, 3), "purge flag"));
  attachment.purge_due = due != 0;
  ASSIGN_OR_RETURN(const std::string version, Info("server", "redis_version"));
  attachment.rdb_version = RdbVersionOf(version);
  std::lock_guard<std::mutex> lock(mutex_);
  generation_ = generation;
  rdb_version_ = attachment.rdb_version;
  return attachment;
}

absl::Status RedisEngine::InstallMap(const Membership& membership) {
  return Call("WR.MAP", {EncodeMembership(membership.data())}).status();
}

absl::StatusOr<uint64_t> RedisEngine::Renew() {
  ASSIGN_OR_RETURN(const RedisReply reply, Call("WR.RENEW", {}));
  return NumberOf<uint64_t>(&reply, "sequence number");
}

absl::Status RedisEngine::Grant(const LeaseGrant& grant) {
  Arguments arguments = {std::to_string(grant.seq), std::to_string(grant.term.value),
                         std::to_string(absl::ToInt64Milliseconds(grant.ttl)),
                         std::to_string(grant.version.value)};
  for (const Floor& floor : grant.floors) {
    arguments.push_back("FLOOR");
    arguments.push_back(std::to_string(floor.epoch.value));
    AppendRanges(floor.ranges, &arguments);
  }
  return Call("WR.GRANT", arguments).status();
}

absl::StatusOr<CacheEngine::FenceResult> RedisEngine::Fence(const MigrationId& migration,
                                                            Epoch floor,
                                                            const HashRangeSet& ranges) {
  Arguments arguments = {migration, std::to_string(floor.value)};
  AppendRanges(ranges, &arguments);
  ASSIGN_OR_RETURN(const RedisReply reply, Call("WR.FENCE", arguments));
  FenceResult result;
  ASSIGN_OR_RETURN(result.watermark, PositionOf(reply));
  ASSIGN_OR_RETURN(const auto complete, NumberOf<int64_t>(ElementOf(reply, 2), "dirty flag"));
  result.dirty_complete = complete != 0;
  return result;
}

absl::StatusOr<LogPosition> RedisEngine::Track(const Id128& nonce, const HashRangeSet& ranges) {
  Arguments arguments = {nonce.ToString()};
  AppendRanges(ranges, &arguments);
  ASSIGN_OR_RETURN(const RedisReply reply, Call("WR.TRACK", arguments));
  return PositionOf(reply);
}

absl::Status RedisEngine::Untrack(const Id128& nonce) {
  return Call("WR.UNTRACK", {nonce.ToString()}).status();
}

absl::StatusOr<CacheEngine::Changes> RedisEngine::ReadChanges(const Id128& nonce,
                                                              const LogPosition& cursor,
                                                              uint64_t ack, uint32_t count) {
  ASSIGN_OR_RETURN(
      RedisReply reply,
      Call("WR.CHANGES", {nonce.ToString(), cursor.log_id, std::to_string(cursor.position),
                          std::to_string(ack), std::to_string(count)}));
  ASSIGN_OR_RETURN(KeyPage page, PageOf(std::move(reply), 0));
  Changes changes;
  changes.next = page.next;
  changes.more = page.keys.size() >= count;
  changes.keys = std::move(page.keys);
  return changes;
}

absl::StatusOr<KeyPage> RedisEngine::Scan(const Id128& nonce, uint64_t cursor, uint32_t count) {
  ASSIGN_OR_RETURN(RedisReply reply, Call("WR.SCAN", {nonce.ToString(), std::to_string(cursor),
                                                      std::to_string(count)}));
  return PageOf(std::move(reply), 0);
}

absl::StatusOr<CacheEngine::Dump> RedisEngine::DumpKeys(const std::vector<std::string>& keys) {
  Dump dump;
  if (keys.empty()) return dump;
  ASSIGN_OR_RETURN(RedisReply reply, Call("WR.DUMP", keys));
  ASSIGN_OR_RETURN(dump.position, PositionOf(reply));
  if (reply.elements.size() < 3 || reply.elements[2].elements.size() != keys.size()) {
    return Unexpected("entry for each key");
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    RedisReply& value = reply.elements[2].elements[i];
    EngineEntry entry;
    entry.key = keys[i];
    entry.absent = value.IsNil();
    if (!entry.absent) {
      ASSIGN_OR_RETURN(entry.ttl_ms, NumberOf<int64_t>(ElementOf(value, 1), "time to live"));
      ASSIGN_OR_RETURN(entry.frequency, NumberOf<int32_t>(ElementOf(value, 2), "frequency"));
      entry.payload = std::move(value.elements[0].text);
    }
    dump.entries.push_back(std::move(entry));
  }
  return dump;
}

absl::StatusOr<CacheEngine::Digests> RedisEngine::DigestKeys(const std::vector<std::string>& keys) {
  Digests digests;
  if (keys.empty()) return digests;
  ASSIGN_OR_RETURN(const RedisReply reply, Call("WR.DIGEST", keys));
  ASSIGN_OR_RETURN(digests.position, PositionOf(reply));
  if (reply.elements.size() < 3 || reply.elements[2].elements.size() != keys.size()) {
    return Unexpected("digest for each key");
  }
  for (const RedisReply& digest : reply.elements[2].elements) {
    if (digest.IsNil()) {
      digests.digests.push_back(std::nullopt);
      continue;
    }
    uint64_t value = 0;
    const char* const end = digest.text.data() + digest.text.size();
    if (std::from_chars(digest.text.data(), end, value, 16).ptr != end) {
      return Unexpected("digest of 16 digits");
    }
    digests.digests.push_back(value);
  }
  return digests;
}

absl::StatusOr<CacheEngine::DirtyPage> RedisEngine::ReadDirty(const MigrationId& migration,
                                                              uint64_t cursor, uint32_t count) {
  ASSIGN_OR_RETURN(RedisReply reply,
                   Call("WR.DIRTY", {migration, std::to_string(cursor), std::to_string(count)}));
  DirtyPage dirty;
  ASSIGN_OR_RETURN(const auto complete, NumberOf<int64_t>(ElementOf(reply, 0), "dirty flag"));
  dirty.complete = complete != 0;
  ASSIGN_OR_RETURN(dirty.page, PageOf(std::move(reply), 1));
  return dirty;
}

absl::StatusOr<KeyPage> RedisEngine::ReadForgotten(uint64_t cursor, uint32_t count) {
  ASSIGN_OR_RETURN(RedisReply reply,
                   Call("WR.FORGOTTEN", {std::to_string(cursor), std::to_string(count)}));
  return PageOf(std::move(reply), 0);
}

absl::Status RedisEngine::ForgetAt(const std::string& address,
                                   const std::vector<std::string>& keys) {
  std::vector<std::vector<std::string_view>> commands;
  commands.reserve(keys.size());
  for (const std::string& key : keys) commands.push_back({"WR.FORGET", key});
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, Send(address, commands));
  for (const RedisReply& reply : replies) {
    if (reply.IsError()) return ErrorOf(address, reply.text);
  }
  return absl::OkStatus();
}

absl::Status RedisEngine::OpenTransfer(const Id128& nonce, const MigrationId& migration,
                                       const HashRangeSet& ranges) {
  Arguments arguments = {nonce.ToString(), migration};
  AppendRanges(ranges, &arguments);
  return Call("WR.OPEN", arguments).status();
}

absl::Status RedisEngine::Apply(const Id128& nonce, const std::vector<EngineEntry>& entries) {
  if (entries.empty()) return absl::OkStatus();
  const std::string nonce_text = nonce.ToString();
  std::vector<std::string> numbers;  // the texts that the commands refer to
  numbers.reserve(entries.size() * 2);
  std::vector<std::vector<std::string_view>> commands;
  std::vector<size_t> first_entry;  // of each command
  size_t keys = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const EngineEntry& entry = entries[i];
    if (commands.empty() || keys >= kApplyKeys || bytes + entry.Bytes() > kApplyBytes) {
      commands.push_back({"WR.APPLY", "", nonce_text});
      first_entry.push_back(i);
      keys = bytes = 0;
    }
    ++keys;
    bytes += entry.Bytes();
    std::vector<std::string_view>& command = commands.back();
    command.push_back(entry.key);
    if (entry.absent) {
      command.push_back("DEL");
      continue;
    }
    command.push_back("SET");
    command.push_back(entry.payload);
    // Nothing left to live is still not "for ever".
    command.push_back(numbers.emplace_back(
        std::to_string(entry.ttl_ms < 0 ? -1 : std::max<int64_t>(entry.ttl_ms, 1))));
    command.push_back(numbers.emplace_back(std::to_string(entry.frequency)));
  }
  // As in Call; what was applied the first time is applied again, in the same order.
  for (int attempt = 0;; ++attempt) {
    const std::string generation = Generation();
    for (std::vector<std::string_view>& command : commands) command[1] = generation;
    ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, Send(options_.address, commands));
    const auto failed = std::find_if(replies.begin(), replies.end(),
                                     [](const RedisReply& reply) { return reply.IsError(); });
    if (failed == replies.end()) return absl::OkStatus();
    const absl::Status error = ErrorOf(options_.address, failed->text);
    if (absl::IsAborted(error) && attempt == 0 && generation != Generation()) continue;
    if (!absl::IsInvalidArgument(error)) return error;
    return PayloadRefused(entries, first_entry[static_cast<size_t>(failed - replies.begin())],
                          failed->text);
  }
}

absl::Status RedisEngine::PayloadRefused(const std::vector<EngineEntry>& entries, size_t first,
                                         const std::string& text) const {
  uint32_t theirs = 0;
  for (size_t i = first; i < std::min(entries.size(), first + kApplyKeys); ++i) {
    theirs = std::max(theirs, PayloadRdbVersion(entries[i].payload));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return absl::InvalidArgumentError(fmt::format(
      "redis {} reads RDB version {} and refuses a dump of version {}; it must not be older than "
      "the server that it copies from ({})",
      options_.address, rdb_version_, theirs, text));
}

absl::Status RedisEngine::CloseTransfer(const Id128& nonce) {
  return Call("WR.CLOSE", {nonce.ToString()}).status();
}

absl::StatusOr<CacheEngine::Purged> RedisEngine::Purge(const std::string& what, uint64_t cursor,
                                                       uint32_t count) {
  ASSIGN_OR_RETURN(const RedisReply reply,
                   Call("WR.PURGE", {what, std::to_string(cursor), std::to_string(count)}));
  Purged purged;
  ASSIGN_OR_RETURN(purged.next, NumberOf<uint64_t>(ElementOf(reply, 0), "cursor"));
  ASSIGN_OR_RETURN(purged.keys, NumberOf<uint64_t>(ElementOf(reply, 1), "number of keys"));
  return purged;
}

absl::StatusOr<CacheEngine::Purged> RedisEngine::PurgeTransfer(const Id128& nonce, uint64_t cursor,
                                                               uint32_t count) {
  return Purge(nonce.ToString(), cursor, count);
}

absl::StatusOr<CacheEngine::Purged> RedisEngine::PurgeLeft(uint64_t cursor, uint32_t count) {
  return Purge("LEFT", cursor, count);
}

absl::StatusOr<CacheEngine::Purged> RedisEngine::PurgeAll(uint64_t cursor, uint32_t count) {
  return Purge("ALL", cursor, count);
}

absl::StatusOr<CacheEngine::Stat> RedisEngine::ReadStat() {
  ASSIGN_OR_RETURN(const RedisReply reply, Call("WR.STAT", {}));
  Stat stat;
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    const std::string& name = reply.elements[i].text;
    const RedisReply* const value = &reply.elements[i + 1];
    if (name == "incarnation") {
      ASSIGN_OR_RETURN(const Id128 id, Id128::Parse(value->text));
      stat.incarnation = Incarnation{id};
    } else if (name == "version") {
      ASSIGN_OR_RETURN(stat.version.value, NumberOf<uint64_t>(value, name));
    } else if (name == "keys") {
      ASSIGN_OR_RETURN(stat.keys, NumberOf<uint64_t>(value, name));
    } else if (name == "lease_ms") {
      ASSIGN_OR_RETURN(stat.lease_ms, NumberOf<int64_t>(value, name));
    } else if (name == "faults") {
      ASSIGN_OR_RETURN(stat.faults, NumberOf<uint64_t>(value, name));
    }
  }
  ASSIGN_OR_RETURN(const std::string bytes, Info("memory", "used_memory_dataset"));
  std::from_chars(bytes.data(), bytes.data() + bytes.size(), stat.bytes);
  return stat;
}

}  // namespace warmring
