#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "agent/redis_module/redis_api.h"

namespace warmring {

// Commands that a client may put behind WR.WRITE, WR.READ and WR.PEEK: those of Redis whose only
// key is their first argument. No scripts, nothing that blocks, nothing that names other keys.
// `words` counts the command's name; `name` may have any case.
bool IsSingleKeyWrite(std::string_view name, int words);
bool IsSingleKeyRead(std::string_view name, int words);
// DEL and UNLINK, which are applied even where they are refused.
bool IsDelete(std::string_view name);

// How a plain command of an unmodified client is treated.
enum class PlainKind : uint8_t {
  kPass,            // no write
  kWrite,           // a write with keys
  kSingleKeyWrite,  // whose only key is its first argument
  kDelete,
  kRefused,   // changes keys that it does not name, or moves keys out of sight
  kBlocking,  // a write that may wait for another client
};

// What this server's commands do, as the server itself tells (COMMAND INFO), so that renamed
// commands and those of other modules are known too. Main thread only.
class CommandTable {
 public:
  // `context` serves for as long as the table. False when this server does not answer COMMAND INFO,
  // without which writes cannot be told from reads.
  bool Init(redis::Context* context);

  // `subcommand`: the second word, or empty. A command that the server does not know is kPass: it
  // will refuse it.
  PlainKind Find(std::string_view name, std::string_view subcommand);

 private:
  struct Entry {
    PlainKind kind = PlainKind::kPass;
    bool has_subcommands = false;
  };
  const Entry* Look(std::string name);

  redis::Context* context_ = nullptr;
  std::unordered_map<std::string, Entry> entries_;  // by lower-case name, as "xgroup|create"
};

}  // namespace warmring
