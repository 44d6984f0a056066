#include "agent/redis_module/redis_api.h"

namespace warmring::redis {

Api api{};

namespace {

using GetApiFunction = int (*)(const char* name, void* target);

class Loader {
 public:
  explicit Loader(GetApiFunction get) : get_(get) {}

  template <typename Function>
  void Load(const char* name, Function& target) {
    if (missing_ == nullptr && get_(name, &target) != kOk) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  GetApiFunction get_;
  const char* missing_ = nullptr;
};

}  // namespace

const char* LoadApi(Context* context) {
  void* const first = *reinterpret_cast<void**>(context);
  Loader loader(reinterpret_cast<GetApiFunction>(first));
  loader.Load("RedisModule_SetModuleAttribs", api.SetModuleAttribs);
  loader.Load("RedisModule_IsModuleNameBusy", api.IsModuleNameBusy);
  loader.Load("RedisModule_GetServerVersion", api.GetServerVersion);
  loader.Load("RedisModule_CreateCommand", api.CreateCommand);
  loader.Load("RedisModule_Log", api.Log);
  loader.Load("RedisModule_GetRandomBytes", api.GetRandomBytes);
  loader.Load("RedisModule_Free", api.Free);
  loader.Load("RedisModule_StringPtrLen", api.StringPtrLen);
  loader.Load("RedisModule_CreateString", api.CreateString);
  loader.Load("RedisModule_FreeString", api.FreeString);
  loader.Load("RedisModule_GetSelectedDb", api.GetSelectedDb);
  loader.Load("RedisModule_SelectDb", api.SelectDb);
  loader.Load("RedisModule_DbSize", api.DbSize);
  loader.Load("RedisModule_GetContextFlags", api.GetContextFlags);
  loader.Load("RedisModule_GetCommandKeys", api.GetCommandKeys);
  loader.Load("RedisModule_GetDetachedThreadSafeContext", api.GetDetachedThreadSafeContext);
  loader.Load("RedisModule_KeyExists", api.KeyExists);
  loader.Load("RedisModule_OpenKey", api.OpenKey);
  loader.Load("RedisModule_CloseKey", api.CloseKey);
  loader.Load("RedisModule_GetExpire", api.GetExpire);
  loader.Load("RedisModule_GetLFU", api.GetLFU);
  loader.Load("RedisModule_Call", api.Call);
  loader.Load("RedisModule_FreeCallReply", api.FreeCallReply);
  loader.Load("RedisModule_CallReplyType", api.CallReplyType);
  loader.Load("RedisModule_CallReplyInteger", api.CallReplyInteger);
  loader.Load("RedisModule_CallReplyStringPtr", api.CallReplyStringPtr);
  loader.Load("RedisModule_CallReplyLength", api.CallReplyLength);
  loader.Load("RedisModule_CallReplyArrayElement", api.CallReplyArrayElement);
  loader.Load("RedisModule_ReplyWithError", api.ReplyWithError);
  loader.Load("RedisModule_ReplyWithSimpleString", api.ReplyWithSimpleString);
  loader.Load("RedisModule_ReplyWithStringBuffer", api.ReplyWithStringBuffer);
  loader.Load("RedisModule_ReplyWithLongLong", api.ReplyWithLongLong);
  loader.Load("RedisModule_ReplyWithNull", api.ReplyWithNull);
  loader.Load("RedisModule_ReplyWithArray", api.ReplyWithArray);
  loader.Load("RedisModule_ReplyWithCallReply", api.ReplyWithCallReply);
  loader.Load("RedisModule_RegisterCommandFilter", api.RegisterCommandFilter);
  loader.Load("RedisModule_CommandFilterArgsCount", api.CommandFilterArgsCount);
  loader.Load("RedisModule_CommandFilterArgGet", api.CommandFilterArgGet);
  loader.Load("RedisModule_CommandFilterArgInsert", api.CommandFilterArgInsert);
  loader.Load("RedisModule_SubscribeToKeyspaceEvents", api.SubscribeToKeyspaceEvents);
  loader.Load("RedisModule_SubscribeToServerEvent", api.SubscribeToServerEvent);
  return loader.missing();
}

std::string_view TextOf(const String* string) {
  size_t size = 0;
  const char* const text = api.StringPtrLen(string, &size);
  return {text, size};
}

std::string_view Reply::text() const {
  if (!Is(kReplyString) && !Is(kReplyError)) return {};
  size_t size = 0;
  const char* const text = api.CallReplyStringPtr(reply_, &size);
  return {text, size};
}

Reply Reply::operator[](size_t index) const {
  return Reply(index < size() ? api.CallReplyArrayElement(reply_, index) : nullptr, false);
}

int ReplyError(Context* context, std::string text) {
  for (char& c : text) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return api.ReplyWithError(context, text.c_str());
}

int ReplyText(Context* context, std::string_view text) {
  return api.ReplyWithStringBuffer(context, text.data(), text.size());
}

}  // namespace warmring::redis
