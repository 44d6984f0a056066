#include "warmring/owner_interceptor.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message_lite.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/client_context.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"
#include "proto/wire/status.h"

namespace warmring {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

// One call of any method. Decides for a guarded one, and holds its write until the call is over.
class OwnerCall final : public grpc::experimental::Interceptor {
 public:
  class Table;

  OwnerCall(std::shared_ptr<Table> table, const grpc::ServerContextBase* context);
  ~OwnerCall() override;

  // Ok: the handler may run.
  absl::Status Admit(OwnerGuard& guard, OwnerAccess access, std::string_view key,
                     std::string_view epoch_word) {
    if (access == OwnerAccess::kRead) return Refuse(guard.BeginRead(key, epoch_word));
    absl::StatusOr<WriteGuard> write = guard.Begin(key, epoch_word);
    if (write.ok()) write_.emplace(*std::move(write));
    return Refuse(write.status());
  }
  absl::Status Refuse(absl::Status status) { return refused_ = std::move(status); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      // What the machinery makes of a call without a handler is not what the client needs.
      if (!refused_.ok()) {
        methods->ModifySendStatus(wire::ToGrpcStatus(refused_));
      } else if (write_ && methods->GetSendStatus().ok()) {
        const absl::Status held = write_->StillHeld();
        if (!held.ok()) methods->ModifySendStatus(wire::ToGrpcStatus(held));
      }
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<Table> table_;
  const grpc::ServerContextBase* const context_;
  absl::Status refused_;
  std::optional<WriteGuard> write_;
};

// The calls that there are, by their context: gRPC gives a handler nothing else of its
// interceptors.
class OwnerCall::Table {
 public:
  void Add(const grpc::ServerContextBase* context, OwnerCall* call) {
    Shard& shard = ShardOf(context);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    shard.calls[context] = call;
  }
  void Remove(const grpc::ServerContextBase* context, const OwnerCall* call) {
    Shard& shard = ShardOf(context);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    // The context may be another call's by now.
    const auto found = shard.calls.find(context);
    if (found != shard.calls.end() && found->second == call) shard.calls.erase(found);
  }
  // Null: the server has no interceptor of this table.
  OwnerCall* Find(const grpc::ServerContextBase* context) {
    Shard& shard = ShardOf(context);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.calls.find(context);
    return found == shard.calls.end() ? nullptr : found->second;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::map<const grpc::ServerContextBase*, OwnerCall*> calls;
  };
  Shard& ShardOf(const grpc::ServerContextBase* context) {
    return shards_[(reinterpret_cast<uintptr_t>(context) >> 7) % shards_.size()];
  }
  std::array<Shard, 16> shards_;
};

OwnerCall::OwnerCall(std::shared_ptr<Table> table, const grpc::ServerContextBase* context)
    : table_(std::move(table)), context_(context) {
  table_->Add(context_, this);
}

OwnerCall::~OwnerCall() { table_->Remove(context_, this); }

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(std::shared_ptr<OwnerCall::Table> table) : table_(std::move(table)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new OwnerCall(table_, info->server_context());
  }

 private:
  const std::shared_ptr<OwnerCall::Table> table_;
};

// Null: there is none, or more than one.
std::optional<std::string_view> MetadataOf(const grpc::ServerContextBase& context,
                                           const char* name) {
  const auto [first, last] = context.client_metadata().equal_range(name);
  if (first == last || std::next(first) != last) return std::nullopt;
  return std::string_view(first->second.data(), first->second.size());
}

// What guarded handlers have in common.
struct Rules {
  OwnerGuard* guard;
  OwnerInterceptorOptions options;
  std::shared_ptr<OwnerCall::Table> calls = std::make_shared<OwnerCall::Table>();
};

absl::Status Admit(const Rules& rules, OwnerAccess access, const grpc::ServerContextBase& context,
                   OwnerCall& call) {
  const std::optional<std::string_view> key = MetadataOf(context, kOwnerKeyMetadata);
  const std::optional<std::string_view> word = MetadataOf(context, kOwnerEpochMetadata);
  if (!key || !word) {
    return call.Refuse(absl::InvalidArgumentError(fmt::format(
        "metadata: {}: none, or more than one: send the key that the call is about, and "
        "the epoch under which its owner holds it",
        key ? kOwnerEpochMetadata : kOwnerKeyMetadata)));
  }
  if (key->size() > rules.options.max_key_bytes) {
    return call.Refuse(absl::InvalidArgumentError(
        fmt::format("metadata: {}: {} bytes are over the limit of {}: use a shorter key",
                    kOwnerKeyMetadata, key->size(), rules.options.max_key_bytes)));
  }
  return call.Admit(*rules.guard, access, *key, *word);
}

// Calls the handler of a method of the service behind, if the call is admitted.
class GuardedHandler final : public MethodHandler {
 public:
  GuardedHandler(std::shared_ptr<const Rules> rules, OwnerAccess access, bool is_synchronous,
                 MethodHandler* handler)
      : rules_(std::move(rules)),
        access_(access),
        is_synchronous_(is_synchronous),
        handler_(handler) {}

  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** handler_data) override {
    return handler_->Deserialize(call, request, status, handler_data);
  }

  void RunHandler(const HandlerParameter& parameter) override {
    // Of a request that could not be read, no handler runs.
    if (access_ == OwnerAccess::kNone || !parameter.status.ok()) {
      handler_->RunHandler(parameter);
      return;
    }
    OwnerCall* const call = rules_->calls->Find(parameter.server_context);
    const absl::Status admitted =
        call != nullptr
            ? Admit(*rules_, access_, *parameter.server_context, *call)
            : absl::InternalError(
                  "the owner interceptor was not given to this server: use MakeFactory");
    if (admitted.ok()) {
      handler_->RunHandler(parameter);
      return;
    }
    // Like a request that could not be read: then the machinery answers, and the handler is spared.
    handler_->RunHandler({parameter.call, parameter.server_context, parameter.request,
                          wire::ToGrpcStatus(admitted), parameter.internal_data,
                          parameter.call_requester});
    // Such a request has no memory to give back, so the synchronous machinery leaves that. (Of a
    // generated service, it knows the request as a MessageLite.)
    if (is_synchronous_ && parameter.request != nullptr) {
      static_cast<google::protobuf::MessageLite*>(parameter.request)->~MessageLite();
    }
  }

 private:
  const std::shared_ptr<const Rules> rules_;
  const OwnerAccess access_;
  const bool is_synchronous_;
  MethodHandler* const handler_;  // of the service behind
};

RpcMethod::RpcType TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming() && method.server_streaming()) return RpcMethod::BIDI_STREAMING;
  if (method.client_streaming()) return RpcMethod::CLIENT_STREAMING;
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

class GuardedService final : public grpc::Service {
 public:
  // `name` must live as long as this, and so must `service`.
  void Add(const std::string& name, RpcMethod::RpcType type, bool is_synchronous,
           std::unique_ptr<MethodHandler> handler) {
    names_.push_back(std::make_unique<std::string>(name));
    auto* const method = new RpcServiceMethod(names_.back()->c_str(), type, handler.release());
    if (!is_synchronous) method->SetServerApiType(RpcServiceMethod::ApiType::CALL_BACK);
    AddMethod(method);
  }

  // The handler of another service's method; in the order of its descriptor.
  static MethodHandler* HandlerOf(grpc::Service& service, int index) {
    return (service.*(&GuardedService::GetHandler))(index);
  }

 private:
  std::vector<std::unique_ptr<std::string>> names_;
};

class OwnerInterceptorImpl final : public OwnerInterceptor {
 public:
  OwnerInterceptorImpl(OwnerGuard* guard, OwnerInterceptorOptions options)
      : rules_(std::make_shared<const Rules>(Rules{guard, std::move(options)})) {}

  absl::StatusOr<std::unique_ptr<grpc::Service>> Guard(grpc::Service* service,
                                                       std::string_view full_name) override {
    const google::protobuf::ServiceDescriptor* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            std::string(full_name));
    if (descriptor == nullptr) {
      return absl::NotFoundError(
          fmt::format("full_name: '{}' is no service that is linked in: use service_full_name() of "
                      "the generated class",
                      full_name));
    }
    const bool is_synchronous = service->has_synchronous_methods();
    if (service->has_generic_methods() || service->has_async_methods() ||
        (is_synchronous && service->has_callback_methods())) {
      return absl::UnimplementedError(
          fmt::format("{}: only services whose methods are all of the synchronous API, or all of "
                      "the callback API, can be guarded",
                      full_name));
    }
    auto guarded = std::make_unique<GuardedService>();
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *descriptor->method(i);
      const std::string name = fmt::format("/{}/{}", full_name, method.name());
      const OwnerAccess access =
          rules_->options.access == nullptr ? OwnerAccess::kWrite : rules_->options.access(name);
      const RpcMethod::RpcType type = TypeOf(method);
      if (type != RpcMethod::NORMAL_RPC && access != OwnerAccess::kNone) {
        return absl::UnimplementedError(fmt::format(
            "{}: a streaming method is not guarded: let its access be kNone and ask the "
            "OwnerGuard for each message",
            name));
      }
      guarded->Add(name, type, is_synchronous,
                   std::make_unique<GuardedHandler>(rules_, access, is_synchronous,
                                                    GuardedService::HandlerOf(*service, i)));
    }
    return guarded;
  }

  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeFactory() override {
    return std::make_unique<Factory>(rules_->calls);
  }

 private:
  const std::shared_ptr<const Rules> rules_;
};

}  // namespace

std::unique_ptr<OwnerInterceptor> OwnerInterceptor::Create(OwnerGuard* guard,
                                                           OwnerInterceptorOptions options) {
  return std::make_unique<OwnerInterceptorImpl>(guard, std::move(options));
}

void AddOwnerMetadata(std::string_view key, std::string_view epoch_word,
                      grpc::ClientContext& context) {
  context.AddMetadata(kOwnerKeyMetadata, std::string(key));
  context.AddMetadata(kOwnerEpochMetadata, std::string(epoch_word));
}

absl::Status OwnerStatusOf(const grpc::Status& status) { return wire::FromGrpcStatus(status); }

}  // namespace warmring
