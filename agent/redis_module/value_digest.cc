#include "agent/redis_module/value_digest.h"

#include <array>
#include <string_view>

#include <xxhash.h>

namespace warmring {
namespace {

using redis::Reply;

uint64_t HashOfText(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

// Of a reply of any depth, in order.
uint64_t HashOfReply(const Reply& reply, uint64_t seed) {
  if (reply.Is(redis::kReplyArray)) {
    uint64_t hash = HashOfText("array", seed + reply.size());
    for (size_t i = 0; i < reply.size(); ++i) hash = HashOfReply(reply[i], hash);
    return hash;
  }
  if (reply.Is(redis::kReplyInteger)) {
    const auto number = static_cast<uint64_t>(reply.integer());
    std::array<char, 8> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>((number >> (8 * i)) & 0xff);
    }
    return HashOfText({bytes.data(), bytes.size()}, seed);
  }
  return HashOfText(reply.text(), seed);
}

// Sum over groups of `width` elements: independent of their order.
uint64_t HashOfUnordered(const Reply& reply, size_t width, uint64_t seed) {
  uint64_t sum = HashOfText("unordered", seed + reply.size());
  for (size_t i = 0; i + width <= reply.size(); i += width) {
    uint64_t hash = seed;
    for (size_t j = 0; j < width; ++j) hash = HashOfText(reply[i + j].text(), hash + j);
    sum += hash;
  }
  return sum;
}

// The value of the field `name` in a flat list of names and values.
uint64_t HashOfField(const Reply& fields, std::string_view name, uint64_t seed) {
  for (size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text() == name) return HashOfReply(fields[i + 1], seed);
  }
  return seed;
}

uint64_t HashOfStream(redis::Context* context, redis::String* key, uint64_t seed) {
  const Reply entries(redis::api.Call(context, "XRANGE", "scc", key, "-", "+"));
  uint64_t hash = HashOfReply(entries, seed);
  const Reply info(redis::api.Call(context, "XINFO", "cs", "STREAM", key));
  hash = HashOfField(info, "last-generated-id", hash);
  const Reply groups(redis::api.Call(context, "XINFO", "cs", "GROUPS", key));
  uint64_t sum = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const uint64_t name = HashOfField(groups[i], "name", seed);
    const uint64_t pending = HashOfField(groups[i], "pending", name);
    sum += HashOfField(groups[i], "last-delivered-id", pending);
  }
  return hash + sum;
}

}  // namespace

std::optional<uint64_t> DigestOfValue(redis::Context* context, redis::String* key) {
  const Reply type_reply(redis::api.Call(context, "TYPE", "s", key));
  const std::string_view type = type_reply.text();
  if (type == "none") return std::nullopt;
  const uint64_t seed = HashOfText(type, 0);
  if (type == "string") return HashOfReply(Reply(redis::api.Call(context, "GET", "s", key)), seed);
  if (type == "list") {
    return HashOfReply(Reply(redis::api.Call(context, "LRANGE", "sll", key, 0LL, -1LL)), seed);
  }
  if (type == "set") {
    return HashOfUnordered(Reply(redis::api.Call(context, "SMEMBERS", "s", key)), 1, seed);
  }
  if (type == "hash") {
    return HashOfUnordered(Reply(redis::api.Call(context, "HGETALL", "s", key)), 2, seed);
  }
  if (type == "zset") {
    const Reply members(redis::api.Call(context, "ZRANGE", "sllc", key, 0LL, -1LL, "WITHSCORES"));
    return HashOfUnordered(members, 2, seed);
  }
  if (type == "stream") return HashOfStream(context, key, seed);
  return HashOfReply(Reply(redis::api.Call(context, "DUMP", "s", key)), seed);
}

}  // namespace warmring
