#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// What we use of the module interface of Redis 7.0 and later. A server hands its functions to a
// module by name, through a pointer that stands first in the context it passes to OnLoad; so a few
// declarations of our own replace a header that no package ships. Functions and their rules are
// those of the Redis documentation ("Modules API reference"), without the prefix RedisModule_.
//
// Thread rule: the server's main thread only, where it calls us.

namespace warmring::redis {

struct Context;
struct String;
struct Key;
struct CallReply;
struct Filter;
struct FilterContext;
struct ServerEvent {
  uint64_t id;
  uint64_t data_version;
};

inline constexpr int kOk = 0;
inline constexpr int kError = 1;

using CommandFunction = int (*)(Context*, String** argv, int argc);
using FilterFunction = void (*)(FilterContext*);
using KeyEventFunction = int (*)(Context*, int type, const char* event, String* key);
using ServerEventFunction = void (*)(Context*, ServerEvent, uint64_t subevent, void* data);

// Kinds of reply of Call.
inline constexpr int kReplyString = 0;  // also a status
inline constexpr int kReplyError = 1;
inline constexpr int kReplyInteger = 2;
inline constexpr int kReplyArray = 3;
inline constexpr int kReplyNull = 4;

// Modes of OpenKey.
inline constexpr int kOpenRead = 1 << 0;
inline constexpr int kOpenNoTouch = 1 << 16;  // leaves LRU and LFU alone

// Flags of GetContextFlags.
inline constexpr int kFlagSlave = 1 << 3;
inline constexpr int kFlagCluster = 1 << 5;

// Types of key events: every change of a value, a removal by time, a removal for memory.
inline constexpr int kEventGeneric = 1 << 2;
inline constexpr int kEventString = 1 << 3;
inline constexpr int kEventList = 1 << 4;
inline constexpr int kEventSet = 1 << 5;
inline constexpr int kEventHash = 1 << 6;
inline constexpr int kEventZset = 1 << 7;
inline constexpr int kEventExpired = 1 << 8;
inline constexpr int kEventEvicted = 1 << 9;
inline constexpr int kEventStream = 1 << 10;
inline constexpr int kEventModule = 1 << 13;

// Server events, and the subevents that we tell apart.
inline constexpr ServerEvent kRoleChanged{0, 1};
inline constexpr uint64_t kRoleNowMaster = 0;
inline constexpr ServerEvent kFlushed{2, 1};
inline constexpr ServerEvent kLoading{3, 1};
inline constexpr ServerEvent kSwapped{11, 1};

// Leaves our own Calls alone.
inline constexpr int kFilterNoSelf = 1 << 0;

// Call's format: '!' replicates, 'v' is a vector of String* and its size_t length, 's' a String*,
// 'b' a buffer and its size_t length, 'c' a C string, 'l' a long long, '0' the client's protocol,
// 'C' under the permissions of the client's user, 'M' refuses where memory is short, 'E' gives
// errors as replies.
struct Api {
  void (*SetModuleAttribs)(Context*, const char* name, int version, int api_version);
  int (*IsModuleNameBusy)(const char* name);
  int (*GetServerVersion)();
  int (*CreateCommand)(Context*, const char* name, CommandFunction, const char* flags,
                       int first_key, int last_key, int key_step);
  void (*Log)(Context*, const char* level, const char* format, ...);
  void (*GetRandomBytes)(unsigned char* out, size_t size);
  void (*Free)(void*);

  const char* (*StringPtrLen)(const String*, size_t* size);
  String* (*CreateString)(Context*, const char* text, size_t size);
  void (*FreeString)(Context*, String*);

  int (*GetSelectedDb)(Context*);
  int (*SelectDb)(Context*, int db);
  unsigned long long (*DbSize)(Context*);
  int (*GetContextFlags)(Context*);
  int* (*GetCommandKeys)(Context*, String** argv, int argc, int* count);
  Context* (*GetDetachedThreadSafeContext)(Context*);

  int (*KeyExists)(Context*, String* key);
  Key* (*OpenKey)(Context*, String* key, int mode);
  void (*CloseKey)(Key*);
  long long (*GetExpire)(Key*);
  int (*GetLFU)(Key*, long long* frequency);

  CallReply* (*Call)(Context*, const char* command, const char* format, ...);
  void (*FreeCallReply)(CallReply*);
  int (*CallReplyType)(CallReply*);
  long long (*CallReplyInteger)(CallReply*);
  const char* (*CallReplyStringPtr)(CallReply*, size_t* size);
  size_t (*CallReplyLength)(CallReply*);
  CallReply* (*CallReplyArrayElement)(CallReply*, size_t index);

  int (*ReplyWithError)(Context*, const char* text);
  int (*ReplyWithSimpleString)(Context*, const char* text);
  int (*ReplyWithStringBuffer)(Context*, const char* text, size_t size);
  int (*ReplyWithLongLong)(Context*, long long value);
  int (*ReplyWithNull)(Context*);
  int (*ReplyWithArray)(Context*, long size);
  int (*ReplyWithCallReply)(Context*, CallReply*);

  Filter* (*RegisterCommandFilter)(Context*, FilterFunction, int flags);
  int (*CommandFilterArgsCount)(FilterContext*);
  String* (*CommandFilterArgGet)(FilterContext*, int index);
  int (*CommandFilterArgInsert)(FilterContext*, int index, String* argument);
  int (*SubscribeToKeyspaceEvents)(Context*, int types, KeyEventFunction);
  int (*SubscribeToServerEvent)(Context*, ServerEvent, ServerEventFunction);
};
extern Api api;

// Fetches the functions. Returns the name of the first one that this server does not have, or null.
const char* LoadApi(Context* context);

std::string_view TextOf(const String* string);

// The reply of a Call, or a part of one, which belongs to the whole.
class Reply {
 public:
  explicit Reply(CallReply* reply) : reply_(reply), whole_(true) {}
  Reply(Reply&& other) noexcept : reply_(other.reply_), whole_(other.whole_) {
    other.reply_ = nullptr;
  }
  Reply& operator=(Reply&&) = delete;
  ~Reply() {
    if (whole_ && reply_ != nullptr) api.FreeCallReply(reply_);
  }

  // No reply at all: the command does not exist, or was called wrongly.
  bool IsMissing() const { return reply_ == nullptr; }
  bool Is(int type) const { return reply_ != nullptr && api.CallReplyType(reply_) == type; }
  bool IsError() const { return reply_ == nullptr || Is(kReplyError); }
  // Of a string, a status or an error; else empty.
  std::string_view text() const;
  long long integer() const { return Is(kReplyInteger) ? api.CallReplyInteger(reply_) : 0; }
  size_t size() const { return Is(kReplyArray) ? api.CallReplyLength(reply_) : 0; }
  Reply operator[](size_t index) const;
  CallReply* get() const { return reply_; }

 private:
  Reply(CallReply* reply, bool whole) : reply_(reply), whole_(whole) {}

  CallReply* reply_;
  bool whole_;
};

// Replies with an error: `text` begins with its code. Line ends become spaces.
int ReplyError(Context* context, std::string text);
int ReplyText(Context* context, std::string_view text);

}  // namespace warmring::redis
