// A real gRPC service on loopback with an OwnerGuard in front: which calls its handlers see, and
// what their callers get.

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "client/base/boot_clock.h"
#include "client/base/membership_testing.h"
#include "client/owner/guard_core.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "owned_store.grpc.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"
#include "warmring/owner_interceptor.h"
#include "warmring/status.h"

namespace warmring {
namespace {

using client_testing::History;
using client_testing::KeyOwnedBy;
using client_testing::RangeOfKey;
using support::kDefaultWait;
using support::WaitFor;
using testing::OwnedStore;

// An OwnerGuard without a server: the test takes the place of the session and of the watch.
class LocalGuard final : public OwnerGuard {
 public:
  explicit LocalGuard(OwnerOptions options) : core_(std::move(options)) {}
  absl::StatusOr<WriteGuard> Begin(std::string_view key, std::string_view word) override {
    return core_.Begin(key, word);
  }
  absl::Status BeginRead(std::string_view key, std::string_view word) override {
    return core_.BeginRead(key, word);
  }
  KeyPoint PointOf(std::string_view key) const override { return core_.PointOf(key); }
  bool HasLease() const override { return core_.HasLease(); }
  Version version() const override { return core_.version(); }
  absl::Status SessionStatus() const override { return absl::OkStatus(); }
  GuardCore& core() { return core_; }

 private:
  GuardCore core_;
};

// What handlers of both APIs do.
class Store {
 public:
  grpc::Status Put(const testing::PutRequest& request) {
    ++puts;
    if (request.value() == "bad") return {grpc::StatusCode::ALREADY_EXISTS, "bad"};
    if (request.value() == "wait") {
      entered.set_value();
      go_on.get_future().wait();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    values_[request.key()] = request.value();
    return grpc::Status::OK;
  }
  std::string Get(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return values_[key];
  }

  std::atomic<int> puts = 0;
  std::promise<void> entered;
  std::promise<void> go_on;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

class SyncService final : public OwnedStore::Service {
 public:
  explicit SyncService(Store* store) : store_(store) {}
  grpc::Status Put(grpc::ServerContext*, const testing::PutRequest* request,
                   testing::PutResponse*) override {
    return store_->Put(*request);
  }
  grpc::Status Get(grpc::ServerContext*, const testing::GetRequest* request,
                   testing::GetResponse* response) override {
    response->set_value(store_->Get(request->key()));
    return grpc::Status::OK;
  }
  grpc::Status Ping(grpc::ServerContext*, const testing::PingRequest*,
                    testing::PingResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Scan(grpc::ServerContext*, const testing::ScanRequest*,
                    grpc::ServerWriter<testing::ScanResponse>* writer) override {
    testing::ScanResponse response;
    response.set_key("k");
    writer->Write(response);
    return grpc::Status::OK;
  }

 private:
  Store* const store_;
};

class CallbackService final : public OwnedStore::CallbackService {
 public:
  explicit CallbackService(Store* store) : store_(store) {}
  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context,
                                const testing::PutRequest* request,
                                testing::PutResponse*) override {
    return Finish(context, store_->Put(*request));
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const testing::GetRequest* request,
                                testing::GetResponse* response) override {
    response->set_value(store_->Get(request->key()));
    return Finish(context, grpc::Status::OK);
  }
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context, const testing::PingRequest*,
                                 testing::PingResponse*) override {
    return Finish(context, grpc::Status::OK);
  }

 private:
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context,
                                          const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }
  Store* const store_;
};

OwnerAccess AccessOf(std::string_view method) {
  if (method.ends_with("/Get")) return OwnerAccess::kRead;
  if (method.ends_with("/Put")) return OwnerAccess::kWrite;
  return OwnerAccess::kNone;
}

enum class Api { kSync, kCallback };

class OwnerInterceptorTest : public ::testing::TestWithParam<Api> {
 protected:
  OwnerInterceptorTest()
      : membership_(client_testing::MakeMembership(client_testing::TwoNodes())),
        key_(KeyOwnedBy(*membership_, "a")) {
    OwnerOptions options;
    options.keyspace = client_testing::kKeyspace;
    options.node = "a";
    options.clock = [this] { return BootNow() + absl::Nanoseconds(ahead_.load()); };
    guard_ = std::make_unique<LocalGuard>(std::move(options));
    guard_->core().OnMembership(membership_);
    EXPECT_OK(guard_->core().Attach(History(), OnRestart::kPurge));
    Grant();
    OwnerInterceptorOptions interceptor;
    interceptor.access = AccessOf;
    interceptor_ = OwnerInterceptor::Create(guard_.get(), std::move(interceptor));
    if (GetParam() == Api::kSync) {
      service_ = std::make_unique<SyncService>(&store_);
    } else {
      service_ = std::make_unique<CallbackService>(&store_);
    }
    auto guarded = interceptor_->Guard(service_.get(), OwnedStore::service_full_name());
    EXPECT_OK(guarded);
    if (!guarded.ok()) return;
    guarded_ = *std::move(guarded);
    Serve(true);
  }

  ~OwnerInterceptorTest() override {
    if (server_) server_->Shutdown();
  }

  void Serve(bool with_interceptor) {
    if (server_) server_->Shutdown();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(guarded_.get());
    if (with_interceptor) {
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
      creators.push_back(interceptor_->MakeFactory());
      builder.experimental().SetInterceptorCreators(std::move(creators));
    }
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = OwnedStore::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                                    grpc::InsecureChannelCredentials()));
  }

  void Grant() {
    const auto renewal = guard_->core().Renew();
    ASSERT_OK(renewal);
    LeaseGrant grant;
    grant.seq = renewal->seq;
    grant.term = Term(1);
    grant.ttl = absl::Minutes(10);
    grant.version = membership_->version();
    ASSERT_OK(guard_->core().Grant(grant));
  }

  void Fence() {
    Task task;
    task.migration = "m1";
    task.nonce = Id128{0, 1};
    task.body = FenceTask{RangeOfKey(*membership_, key_), Epoch(1)};
    guard_->core().SetTasks({task});
  }
  // A fence is acknowledged when no write is in flight any more.
  absl::Status Drained() {
    return WaitFor("the acknowledgement of the fence", kDefaultWait,
                   [&] { return !guard_->core().TakeReports().empty(); });
  }

  static std::string Word(uint64_t epoch) { return History().Tag() + ":" + std::to_string(epoch); }

  absl::Status Put(const std::string& key, const std::string& word,
                   const std::string& value = "v") {
    grpc::ClientContext context;
    AddOwnerMetadata(key, word, context);
    return Put(context, value);
  }
  absl::Status Put(grpc::ClientContext& context, const std::string& value = "v") {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    testing::PutRequest request;
    // Long enough to be on the heap: a request whose handler does not run must not leak.
    request.set_key(key_ + std::string(100, 'x'));
    request.set_value(value);
    testing::PutResponse response;
    return OwnerStatusOf(stub_->Put(&context, request, &response));
  }
  absl::Status Get(const std::string& key, const std::string& word) {
    grpc::ClientContext context;
    AddOwnerMetadata(key, word, context);
    testing::GetRequest request;
    request.set_key(key);
    testing::GetResponse response;
    return OwnerStatusOf(stub_->Get(&context, request, &response));
  }

  Membership::Ptr membership_;
  const std::string key_;
  std::atomic<int64_t> ahead_ = 0;  // of the clock, in nanoseconds
  std::unique_ptr<LocalGuard> guard_;
  std::unique_ptr<OwnerInterceptor> interceptor_;
  Store store_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Service> guarded_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<OwnedStore::Stub> stub_;
};

TEST_P(OwnerInterceptorTest, AdmitsWritesAndReads) {
  EXPECT_OK(Put(key_, Word(1)));
  EXPECT_OK(Get(key_, Word(1)));
  EXPECT_EQ(store_.puts, 1);
  Fence();
  EXPECT_OK(Drained());
}

TEST_P(OwnerInterceptorTest, RefusesWithWhatCuresTheClient) {
  const std::string other = KeyOwnedBy(*membership_, "b");
  absl::Status status = Put(other, Word(1));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, "another node"));
  EXPECT_EQ(RefusalOf(status),
            (RefusalInfo{RefusalReason::kNotOwner, Word(1), Version(1), "127.0.0.1:7002"}));
  EXPECT_EQ(RefusalOf(Get(other, Word(1)))->reason, RefusalReason::kNotOwner);

  status = Put(key_, Word(2));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kOwnerBehind);

  membership_ = client_testing::WithOwner(*membership_, key_, "a", Epoch(5));
  guard_->core().OnMembership(membership_);
  status = Put(key_, Word(1));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kStaleEpoch);
  EXPECT_EQ(RefusalOf(status)->epoch_word, Word(5));
  EXPECT_OK(Put(key_, Word(5)));

  EXPECT_EQ(RefusalOf(Put(key_, "00000009:5"))->reason, RefusalReason::kWrongHistory);
  EXPECT_EQ(store_.puts, 1) << "no handler of a refused call has run";
}

TEST_P(OwnerInterceptorTest, WritesNeedALeaseAndReadsDoNot) {
  ahead_ = absl::ToInt64Nanoseconds(absl::Hours(1));
  const absl::Status status = Put(key_, Word(1));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kNoLease);
  EXPECT_OK(Get(key_, Word(1)));
  Grant();
  EXPECT_OK(Put(key_, Word(1)));
}

// The handler says Ok, and the answer is Unknown: the write may exist. The fence waits for it.
TEST_P(OwnerInterceptorTest, AWriteThatIsFencedMeanwhileIsNotAcknowledged) {
  std::future<absl::Status> answer =
      std::async(std::launch::async, [&] { return Put(key_, Word(1), "wait"); });
  store_.entered.get_future().wait();
  Fence();
  EXPECT_TRUE(guard_->core().TakeReports().empty());
  store_.go_on.set_value();
  const absl::Status status = answer.get();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnknown, "must not be acknowledged"));
  EXPECT_EQ(RefusalOf(status)->reason, RefusalReason::kFencing);
  EXPECT_OK(Drained());
  EXPECT_EQ(store_.puts, 1);
}

TEST_P(OwnerInterceptorTest, ACallThatIsCancelledIsCountedUntilItsHandlerEnds) {
  grpc::ClientContext context;
  AddOwnerMetadata(key_, Word(1), context);
  std::future<absl::Status> answer =
      std::async(std::launch::async, [&] { return Put(context, "wait"); });
  store_.entered.get_future().wait();
  context.TryCancel();
  EXPECT_THAT(answer.get(), StatusIs(absl::StatusCode::kCancelled));
  Fence();
  EXPECT_TRUE(guard_->core().TakeReports().empty()) << "the handler may still write";
  store_.go_on.set_value();
  EXPECT_OK(Drained());
}

TEST_P(OwnerInterceptorTest, AnErrorOfTheHandlerStays) {
  EXPECT_THAT(Put(key_, Word(1), "bad"), StatusIs(absl::StatusCode::kAlreadyExists, "bad"));
  Fence();
  EXPECT_OK(Drained());
}

TEST_P(OwnerInterceptorTest, BadMetadataIsNamed) {
  {
    grpc::ClientContext nothing;
    EXPECT_THAT(Put(nothing), StatusIs(absl::StatusCode::kInvalidArgument, "warmring-key-bin"));
  }
  {
    grpc::ClientContext key_only;
    key_only.AddMetadata(kOwnerKeyMetadata, key_);
    EXPECT_THAT(Put(key_only), StatusIs(absl::StatusCode::kInvalidArgument, "warmring-epoch"));
  }
  {
    grpc::ClientContext twice;
    AddOwnerMetadata(key_, Word(1), twice);
    AddOwnerMetadata(KeyOwnedBy(*membership_, "b"), Word(1), twice);
    EXPECT_THAT(Put(twice), StatusIs(absl::StatusCode::kInvalidArgument, "more than one"));
  }
  EXPECT_THAT(Put(key_, "nonsense"), StatusIs(absl::StatusCode::kInvalidArgument, "nonsense"));
  EXPECT_THAT(Put(key_, ""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Put(std::string(4097, 'k'), Word(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, "over the limit of 4096"));
  // Any bytes are a key.
  const absl::Status ahead = Put(std::string("\0\xff\n", 3), Word(7));
  const std::optional<RefusalInfo> refusal = RefusalOf(ahead);
  ASSERT_TRUE(refusal.has_value()) << ahead;
  EXPECT_EQ(refusal->reason, RefusalReason::kOwnerBehind);
  // That one gRPC itself does not let in, and it may end the connection for it: the last call.
  EXPECT_FALSE(Put(std::string(40'000, 'k'), Word(1)).ok());
  EXPECT_EQ(store_.puts, 0);
}

TEST_P(OwnerInterceptorTest, MethodsWithoutAccessAreLeftAlone) {
  grpc::ClientContext context;
  testing::PingResponse response;
  EXPECT_TRUE(stub_->Ping(&context, testing::PingRequest(), &response).ok());
  if (GetParam() == Api::kCallback) return;
  grpc::ClientContext streaming;
  const auto reader = stub_->Scan(&streaming, testing::ScanRequest());
  testing::ScanResponse item;
  EXPECT_TRUE(reader->Read(&item));
  EXPECT_EQ(item.key(), "k");
  EXPECT_FALSE(reader->Read(&item));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_P(OwnerInterceptorTest, WithoutTheInterceptorNothingIsServed) {
  Serve(false);
  const absl::Status status = Put(key_, Word(1));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(store_.puts, 0);
  if (GetParam() == Api::kSync) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, "MakeFactory"));
  }
}

TEST_P(OwnerInterceptorTest, WhatCannotBeGuardedIsNamed) {
  EXPECT_THAT(interceptor_->Guard(service_.get(), "warmring.testing.Nothing"),
              StatusIs(absl::StatusCode::kNotFound, "warmring.testing.Nothing"));
  const auto strict = OwnerInterceptor::Create(guard_.get(), {});
  EXPECT_THAT(strict->Guard(service_.get(), OwnedStore::service_full_name()),
              StatusIs(absl::StatusCode::kUnimplemented, "/warmring.testing.OwnedStore/Scan"));
  OwnedStore::AsyncService asynchronous;
  EXPECT_THAT(interceptor_->Guard(&asynchronous, OwnedStore::service_full_name()),
              StatusIs(absl::StatusCode::kUnimplemented, "synchronous API"));
}

INSTANTIATE_TEST_SUITE_P(Apis, OwnerInterceptorTest, ::testing::Values(Api::kSync, Api::kCallback),
                         [](const auto& api) {
                           return std::string(api.param == Api::kSync ? "Sync" : "Callback");
                         });

}  // namespace
}  // namespace warmring
