#include "agent/redis_module/command_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace warmring {
namespace {

using redis::Reply;

constexpr auto kWrites = std::to_array<std::string_view>({"append",
                                                          "bitfield",
                                                          "decr",
                                                          "decrby",
                                                          "del",
                                                          "expire",
                                                          "expireat",
                                                          "geoadd",
                                                          "getdel",
                                                          "getex",
                                                          "getset",
                                                          "hdel",
                                                          "hincrby",
                                                          "hincrbyfloat",
                                                          "hmset",
                                                          "hset",
                                                          "hsetnx",
                                                          "incr",
                                                          "incrby",
                                                          "incrbyfloat",
                                                          "linsert",
                                                          "lpop",
                                                          "lpush",
                                                          "lpushx",
                                                          "lrem",
                                                          "lset",
                                                          "ltrim",
                                                          "persist",
                                                          "pexpire",
                                                          "pexpireat",
                                                          "pfadd",
                                                          "psetex",
                                                          "rpop",
                                                          "rpush",
                                                          "rpushx",
                                                          "sadd",
                                                          "set",
                                                          "setbit",
                                                          "setex",
                                                          "setnx",
                                                          "setrange",
                                                          "spop",
                                                          "srem",
                                                          "unlink",
                                                          "xack",
                                                          "xadd",
                                                          "xautoclaim",
                                                          "xclaim",
                                                          "xdel",
                                                          "xsetid",
                                                          "xtrim",
                                                          "zadd",
                                                          "zincrby",
                                                          "zpopmax",
                                                          "zpopmin",
                                                          "zrem",
                                                          "zremrangebylex",
                                                          "zremrangebyrank",
                                                          "zremrangebyscore"});
constexpr auto kReads = std::to_array<std::string_view>({"bitcount",
                                                         "bitfield_ro",
                                                         "bitpos",
                                                         "dump",
                                                         "exists",
                                                         "expiretime",
                                                         "geodist",
                                                         "geohash",
                                                         "geopos",
                                                         "geosearch",
                                                         "get",
                                                         "getbit",
                                                         "getrange",
                                                         "hexists",
                                                         "hget",
                                                         "hgetall",
                                                         "hkeys",
                                                         "hlen",
                                                         "hmget",
                                                         "hrandfield",
                                                         "hscan",
                                                         "hstrlen",
                                                         "hvals",
                                                         "lindex",
                                                         "llen",
                                                         "lpos",
                                                         "lrange",
                                                         "pexpiretime",
                                                         "pfcount",
                                                         "pttl",
                                                         "scard",
                                                         "sismember",
                                                         "smembers",
                                                         "smismember",
                                                         "srandmember",
                                                         "sscan",
                                                         "strlen",
                                                         "substr",
                                                         "ttl",
                                                         "type",
                                                         "xlen",
                                                         "xrange",
                                                         "xrevrange",
                                                         "zcard",
                                                         "zcount",
                                                         "zlexcount",
                                                         "zmscore",
                                                         "zrandmember",
                                                         "zrange",
                                                         "zrangebylex",
                                                         "zrangebyscore",
                                                         "zrank",
                                                         "zrevrange",
                                                         "zrevrangebylex",
                                                         "zrevrangebyscore",
                                                         "zrevrank",
                                                         "zscan",
                                                         "zscore"});
// Those whose further words are keys too.
constexpr auto kVariadic = std::to_array<std::string_view>({"del", "exists", "pfcount", "unlink"});
constexpr auto kRefused =
    std::to_array<std::string_view>({"flushall", "flushdb", "move", "swapdb"});
// "blocking" among the flags of this one means only that an option may make it so.
constexpr std::string_view kBlocksByOption = "xreadgroup";

static_assert(std::is_sorted(kWrites.begin(), kWrites.end()));
static_assert(std::is_sorted(kReads.begin(), kReads.end()));
static_assert(std::is_sorted(kVariadic.begin(), kVariadic.end()));
static_assert(std::is_sorted(kRefused.begin(), kRefused.end()));

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

template <size_t kSize>
bool Has(const std::array<std::string_view, kSize>& sorted, std::string_view lower) {
  return std::binary_search(sorted.begin(), sorted.end(), lower);
}

bool HasFlag(const Reply& flags, std::string_view flag) {
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i].text() == flag) return true;
  }
  return false;
}

// `canonical` is the name under which Redis documents the command, whatever it is renamed to.
PlainKind KindOf(std::string_view canonical, const Reply& flags) {
  if (!HasFlag(flags, "write")) return PlainKind::kPass;
  // The code of functions; what they do to keys is seen when they do it.
  if (canonical.substr(0, 9) == "function|") return PlainKind::kPass;
  if (Has(kRefused, canonical)) return PlainKind::kRefused;
  if (IsDelete(canonical)) return PlainKind::kDelete;
  if (HasFlag(flags, "blocking") && canonical != kBlocksByOption) return PlainKind::kBlocking;
  return Has(kWrites, canonical) ? PlainKind::kSingleKeyWrite : PlainKind::kWrite;
}

}  // namespace

bool IsSingleKeyWrite(std::string_view name, int words) {
  const std::string lower = Lower(name);
  return words >= 2 && Has(kWrites, lower) && (words == 2 || !Has(kVariadic, lower));
}

bool IsSingleKeyRead(std::string_view name, int words) {
  const std::string lower = Lower(name);
  return words >= 2 && Has(kReads, lower) && (words == 2 || !Has(kVariadic, lower));
}

bool IsDelete(std::string_view name) {
  const std::string lower = Lower(name);
  return lower == "del" || lower == "unlink";
}

bool CommandTable::Init(redis::Context* context) {
  context_ = context;
  return Find("set", "") == PlainKind::kSingleKeyWrite || Look("get") != nullptr;
}

const CommandTable::Entry* CommandTable::Look(std::string name) {
  const auto known = entries_.find(name);
  if (known != entries_.end()) return &known->second;
  const Reply reply(redis::api.Call(context_, "COMMAND", "cb", "INFO", name.data(), name.size()));
  const Reply info = reply[0];
  // Element 0 is the name, 2 the flags, 9 the subcommands. Null when there is no such command.
  if (info.size() < 10) return nullptr;
  Entry entry;
  entry.kind = KindOf(info[0].text(), info[2]);
  entry.has_subcommands = info[9].size() > 0;
  return &entries_.emplace(std::move(name), entry).first->second;
}

PlainKind CommandTable::Find(std::string_view name, std::string_view subcommand) {
  const Entry* entry = Look(Lower(name));
  if (entry != nullptr && entry->has_subcommands && !subcommand.empty()) {
    entry = Look(Lower(name) + '|' + Lower(subcommand));
  }
  return entry == nullptr ? PlainKind::kPass : entry->kind;
}

}  // namespace warmring
