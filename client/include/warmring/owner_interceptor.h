#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warmring/owner.h"

// Of gRPC, which whoever uses this includes: an installed header names it and no more.
namespace grpc {
class ClientContext;
class Service;
class Status;
namespace experimental {
class ServerInterceptorFactoryInterface;
}  // namespace experimental
}  // namespace grpc

namespace warmring {

// The metadata of a guarded call: the key, any bytes, and the epoch word, "a1b2c3d4:17".
inline constexpr char kOwnerKeyMetadata[] = "warmring-key-bin";
inline constexpr char kOwnerEpochMetadata[] = "warmring-epoch";

// What a method does with its key. The server decides that: a client that calls a write a read
// would write without a lease.
enum class OwnerAccess : uint8_t {
  kWrite,  // OwnerGuard::Begin before it, StillHeld before its Ok leaves
  kRead,   // OwnerGuard::BeginRead before it
  kNone,   // not guarded: it has no key, or asks the OwnerGuard itself
};

struct OwnerInterceptorOptions {
  // Of each method of a guarded service, by its full name ("/my.v1.Store/Put"). Called once for
  // each when the service is guarded. Null: all are writes.
  std::function<OwnerAccess(std::string_view method)> access;
  // Longer keys are refused. The metadata of a call are limited too: gRPC refuses more than 8 KiB,
  // in which a key takes four bytes for three.
  size_t max_key_bytes = 4096;
};

// Puts an OwnerGuard in front of the methods of gRPC services: each call is admitted by the key and
// the epoch in its metadata, and an Ok of a write leaves only if the write is still held.
//
//   auto interceptor = warmring::OwnerInterceptor::Create(owner.get(), options);
//   auto guarded = interceptor->Guard(&store, my::v1::Store::service_full_name());
//   if (!guarded.ok()) return guarded.status();
//   builder.RegisterService(guarded->get());          // in place of &store
//   creators.push_back(interceptor->MakeFactory());
//   builder.experimental().SetInterceptorCreators(std::move(creators));
//
// Answers of a guarded method, but those of its handler:
//   FAILED_PRECONDITION, UNAVAILABLE: as OwnerGuard::Begin; the handler has not run.
//   UNKNOWN: the handler of a write answered Ok, and the write may not be acknowledged.
//   INVALID_ARGUMENT: no key, no epoch word or a malformed one, or too long a key.
//   INTERNAL: the factory was not given to the server: the handler has not run.
// All but the last two kinds carry what cures the client (OwnerStatusOf, then RefusalOf).
//
// A gRPC interceptor on a server cannot keep a handler from running, so there are two halves: the
// service that Guard returns decides whether the handler runs, and the interceptor looks at the
// answer, and keeps the write counted as in flight until the call is over.
//
// Thread-safe once the server runs.
class OwnerInterceptor {
 public:
  // REQUIRES: `guard` is there as long as a server with the factory. Guarded services and factories
  // may outlive this object.
  static std::unique_ptr<OwnerInterceptor> Create(OwnerGuard* guard,
                                                  OwnerInterceptorOptions options);
  virtual ~OwnerInterceptor() = default;

  // A service of the same methods, to be registered in place of `service`, whose handlers it calls.
  // REQUIRES: `service` is generated from protobuf, is not registered itself, and outlives the
  // result.
  // Errors: NotFound: no service of that name is linked in. Unimplemented, naming the method: it
  // streams and its access is not kNone (each message may have another key), or its API is the
  // asynchronous or the generic one, or the service mixes handlers of the synchronous and of the
  // callback API.
  virtual absl::StatusOr<std::unique_ptr<grpc::Service>> Guard(grpc::Service* service,
                                                               std::string_view full_name) = 0;

  // What makes the interceptors: for ServerBuilder, once for each server.
  virtual std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeFactory() = 0;
};

// For clients: what a guarded method needs to know. `epoch_word` is Location::EpochWord() of the
// key.
void AddOwnerMetadata(std::string_view key, std::string_view epoch_word,
                      grpc::ClientContext& context);

// For clients: the status of a guarded call, so that RefusalOf finds what cures it.
absl::Status OwnerStatusOf(const grpc::Status& status);

}  // namespace warmring
