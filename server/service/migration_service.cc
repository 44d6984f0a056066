#include "server/service/migration_service.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "proto/wire/migration.h"
#include "proto/wire/status.h"
#include "server/service/paging.h"

namespace warmring {
namespace {

constexpr char kMethodPrefix[] = "MigrationService/";
constexpr size_t kMaxReasonBytes = 1024;

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(wire::ToGrpcStatus(status));
  return reactor;
}

v1::Migration ToProto(const MigrationSnapshot& snapshot, wire::RangeDetail detail) {
  v1::Migration proto = wire::ToProto(snapshot.record, snapshot.progress, detail);
  return proto;
}

absl::Status CheckReason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) return absl::OkStatus();
  return WithReason(absl::InvalidArgumentError(fmt::format("reason: {} bytes are over {}",
                                                           reason.size(), kMaxReasonBytes)),
                    "BAD_FIELD");
}

}  // namespace

// One WatchMigration call: the newest snapshot wins, one write at a time. The conductor's listener
// and the set of streams share it with gRPC, which is done with it at OnDone.
class MigrationService::WatchStream : public std::enable_shared_from_this<WatchStream> {
 public:
  class Reactor : public grpc::ServerWriteReactor<v1::WatchMigrationResponse> {
   public:
    explicit Reactor(std::shared_ptr<WatchStream> stream, WatchSet* set)
        : stream_(std::move(stream)), set_(set) {}
    void OnWriteDone(bool ok) override { stream_->OnWriteDone(ok); }
    void OnCancel() override { stream_->End(grpc::Status::CANCELLED); }
    void OnDone() override {
      stream_->Forget();
      set_->Remove(stream_);
      delete this;
    }

   private:
    std::shared_ptr<WatchStream> stream_;
    WatchSet* set_;
  };

  Reactor* Begin(WatchSet* set) {
    reactor_ = new Reactor(shared_from_this(), set);
    return reactor_;
  }

  // Returns whether more is wanted.
  bool Offer(const MigrationSnapshotPtr& snapshot) {
    std::lock_guard lock(mutex_);
    if (reactor_ == nullptr || ended_) return false;
    newest_ = snapshot;
    last_ = IsTerminal(snapshot->record.stage);
    WriteNewest();
    return true;
  }

  void End(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    Finish(status);
  }

 private:
  void OnWriteDone(bool ok) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) return Finish(grpc::Status::CANCELLED);
    WriteNewest();
  }

  // REQUIRES (this and Finish): mutex_ is held.
  void WriteNewest() {
    if (writing_ || ended_) return;
    if (newest_ == nullptr) {
      if (last_) Finish(grpc::Status::OK);
      return;
    }
    message_.mutable_migration()->CopyFrom(ToProto(*newest_, wire::RangeDetail::kOmit));
    newest_.reset();
    writing_ = true;
    reactor_->StartWrite(&message_);
  }

  void Finish(const grpc::Status& status) {
    if (reactor_ == nullptr || ended_) return;
    ended_ = true;
    reactor_->Finish(status);
  }

  void Forget() {
    std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

  std::mutex mutex_;
  Reactor* reactor_ = nullptr;
  v1::WatchMigrationResponse message_;
  MigrationSnapshotPtr newest_;
  bool writing_ = false;
  bool last_ = false;
  bool ended_ = false;
};

void MigrationService::WatchSet::Add(std::shared_ptr<WatchStream> stream) {
  std::lock_guard lock(mutex_);
  streams_.insert(std::move(stream));
}

void MigrationService::WatchSet::Remove(const std::shared_ptr<WatchStream>& stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

std::set<std::shared_ptr<MigrationService::WatchStream>> MigrationService::WatchSet::TakeAll() {
  std::lock_guard lock(mutex_);
  return std::exchange(streams_, {});
}

MigrationService::MigrationService(Environment environment) : env_(std::move(environment)) {}

void MigrationService::EndWatches() {
  for (const auto& stream : watches_.TakeAll()) {
    stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                             "the server is stopping: watch again, the migration goes on"));
  }
}

grpc::ServerUnaryReactor* MigrationService::SubmitMigration(
    grpc::CallbackServerContext* context, const v1::SubmitMigrationRequest* request,
    v1::SubmitMigrationResponse* response) {
  const std::string method = std::string(kMethodPrefix) + "SubmitMigration";
  const KeyspaceId& keyspace = request->plan().keyspace();
  const absl::StatusOr<Caller> caller = env_.gate->Enter(*context, method, keyspace);
  if (!caller.ok()) return Refuse(context, caller.status());
  absl::StatusOr<MigrationPlan> plan = wire::MigrationPlanFromProto(request->plan());
  if (!plan.ok()) return Refuse(context, plan.status());
  const absl::StatusOr<KeyspaceRuntime*> found = env_.runtimes->Find(keyspace);
  if (!found.ok()) return Refuse(context, found.status());
  KeyspaceRuntime* runtime = *found;
  v1::SubmitMigrationRequest body = *request;
  body.clear_request_id();
  RequestLog::Request row = RequestLog::Describe(
      *caller, method, keyspace, request->validate_only() ? "" : request->request_id(), body);
  row.mutation.reason = request->plan().reason();
  Conductor::Submission submission;
  submission.plan = *std::move(plan);
  submission.id = request->migration_id();
  submission.author = caller->Name();
  submission.validate_only = request->validate_only();
  submission.extra = [requests = env_.requests, row](const MigrationId& id) {
    return requests->Rows(row, id);
  };
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto answer = [response, reactor](const Preview& preview,
                                          const MigrationSnapshotPtr& migration) {
    *response->mutable_preview() = wire::ToProto(preview, wire::RangeDetail::kShow);
    if (migration != nullptr) {
      *response->mutable_migration() = ToProto(*migration, wire::RangeDetail::kOmit);
    }
    reactor->Finish(grpc::Status::OK);
  };
  env_.requests->LookUp(
      row, &runtime->strand(),
      [runtime, submission, reactor,
       answer](const absl::StatusOr<RequestLog::Earlier>& earlier) mutable {
        if (!earlier.ok()) return reactor->Finish(wire::ToGrpcStatus(earlier.status()));
        if (*earlier) {
          const auto migration = runtime->conductor().Find((*earlier)->migration);
          if (!migration.ok()) return reactor->Finish(wire::ToGrpcStatus(migration.status()));
          return answer((*migration)->record.preview, *migration);
        }
        runtime->conductor().Submit(
            std::move(submission),
            [reactor, answer](const absl::StatusOr<Conductor::Submitted>& submitted) {
              if (!submitted.ok()) return reactor->Finish(wire::ToGrpcStatus(submitted.status()));
              answer(submitted->preview, submitted->migration);
            });
      });
  return reactor;
}

grpc::ServerUnaryReactor* MigrationService::GetMigration(grpc::CallbackServerContext* context,
                                                         const v1::GetMigrationRequest* request,
                                                         v1::GetMigrationResponse* response) {
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, std::string(kMethodPrefix) + "GetMigration", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<KeyspaceRuntime*> runtime = env_.runtimes->Find(request->keyspace());
  if (!runtime.ok()) return Refuse(context, runtime.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  (*runtime)->strand().Post([runtime = *runtime, id = request->migration(), response, reactor] {
    const absl::StatusOr<MigrationSnapshotPtr> migration = runtime->conductor().Find(id);
    if (migration.ok()) {
      *response->mutable_migration() = ToProto(**migration, wire::RangeDetail::kShow);
    }
    reactor->Finish(wire::ToGrpcStatus(migration.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* MigrationService::ListMigrations(grpc::CallbackServerContext* context,
                                                           const v1::ListMigrationsRequest* request,
                                                           v1::ListMigrationsResponse* response) {
  const absl::StatusOr<Caller> caller = env_.gate->Enter(
      *context, std::string(kMethodPrefix) + "ListMigrations", request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<Page> page = ParsePage(request->page_size(), request->page_token());
  if (!page.ok()) return Refuse(context, page.status());
  const absl::StatusOr<KeyspaceRuntime*> runtime = env_.runtimes->Find(request->keyspace());
  if (!runtime.ok()) return Refuse(context, runtime.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  (*runtime)->strand().Post([runtime = *runtime, page = *page, response, reactor] {
    const std::vector<MigrationSnapshotPtr> all = runtime->conductor().List();
    const size_t end = std::min<size_t>(page.begin + page.size, all.size());
    for (size_t i = page.begin; i < end; ++i) {
      *response->add_migrations() = ToProto(*all[i], wire::RangeDetail::kOmit);
    }
    response->set_next_page_token(NextToken(end, all.size()));
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchMigrationResponse>* MigrationService::WatchMigration(
    grpc::CallbackServerContext* context, const v1::WatchMigrationRequest* request) {
  auto stream = std::make_shared<WatchStream>();
  WatchStream::Reactor* reactor = stream->Begin(&watches_);
  watches_.Add(stream);
  const absl::StatusOr<Caller> caller = env_.gate->Enter(
      *context, std::string(kMethodPrefix) + "WatchMigration", request->keyspace());
  if (!caller.ok()) {
    stream->End(wire::ToGrpcStatus(caller.status()));
    return reactor;
  }
  const absl::StatusOr<KeyspaceRuntime*> runtime = env_.runtimes->Find(request->keyspace());
  if (!runtime.ok()) {
    stream->End(wire::ToGrpcStatus(runtime.status()));
    return reactor;
  }
  (*runtime)->strand().Post([runtime = *runtime, id = request->migration(), stream] {
    const absl::Status watched = runtime->conductor().Watch(
        id, [stream](const MigrationSnapshotPtr& snapshot) { return stream->Offer(snapshot); });
    if (!watched.ok()) stream->End(wire::ToGrpcStatus(watched));
  });
  return reactor;
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* MigrationService::Command(grpc::CallbackServerContext* context,
                                                    const Request* request, Response* response,
                                                    const char* method, OperatorCommand command) {
  return Ask(context, request, response, method,
             [command](KeyspaceRuntime& runtime, const Caller&, const MigrationId& id, Batch extra,
                       auto done) {
               runtime.conductor().Command(id, command, std::move(extra), std::move(done));
             });
}

// What all requests about one migration have in common. `ask` is called on the keyspace's strand.
template <typename Request, typename Response, typename Asker>
grpc::ServerUnaryReactor* MigrationService::Ask(grpc::CallbackServerContext* context,
                                                const Request* request, Response* response,
                                                const char* method, Asker ask) {
  const std::string full_method = std::string(kMethodPrefix) + method;
  const absl::StatusOr<Caller> caller =
      env_.gate->Enter(*context, full_method, request->keyspace());
  if (!caller.ok()) return Refuse(context, caller.status());
  const absl::StatusOr<KeyspaceRuntime*> found = env_.runtimes->Find(request->keyspace());
  if (!found.ok()) return Refuse(context, found.status());
  KeyspaceRuntime* runtime = *found;
  Request body = *request;
  body.clear_request_id();
  RequestLog::Request row =
      RequestLog::Describe(*caller, full_method, request->keyspace(), request->request_id(), body);
  if constexpr (requires { request->reason(); }) {
    if (absl::Status bad = CheckReason(request->reason()); !bad.ok()) return Refuse(context, bad);
    row.mutation.reason = request->reason();
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto answer = [response, reactor](const absl::StatusOr<MigrationSnapshotPtr>& migration) {
    if (migration.ok()) {
      *response->mutable_migration() = ToProto(**migration, wire::RangeDetail::kOmit);
    }
    reactor->Finish(wire::ToGrpcStatus(migration.status()));
  };
  env_.requests->LookUp(
      row, &runtime->strand(),
      [requests = env_.requests, runtime, row, id = request->migration(), ask, caller = *caller,
       reactor, answer](const absl::StatusOr<RequestLog::Earlier>& earlier) mutable {
        if (!earlier.ok()) return reactor->Finish(wire::ToGrpcStatus(earlier.status()));
        if (*earlier) return answer(runtime->conductor().Find((*earlier)->migration));
        ask(*runtime, caller, id, requests->Rows(row, id), answer);
      });
  return reactor;
}

grpc::ServerUnaryReactor* MigrationService::ForceFence(grpc::CallbackServerContext* context,
                                                       const v1::ForceFenceRequest* request,
                                                       v1::ForceFenceResponse* response) {
  warmring::ForceFence force;
  force.node = request->node();
  force.reason = request->reason();
  force.accept_data_loss = request->accept_data_loss();
  return Ask(context, request, response, "ForceFence",
             [force](KeyspaceRuntime& runtime, const Caller& caller, const MigrationId& id,
                     Batch extra, auto done) mutable {
               force.author = caller.Name();
               runtime.conductor().Force(id, force, std::move(extra), std::move(done));
             });
}

grpc::ServerUnaryReactor* MigrationService::PromoteMigration(
    grpc::CallbackServerContext* context, const v1::PromoteMigrationRequest* request,
    v1::PromoteMigrationResponse* response) {
  return Command(context, request, response, "PromoteMigration", OperatorCommand::kPromote);
}

grpc::ServerUnaryReactor* MigrationService::PauseMigration(grpc::CallbackServerContext* context,
                                                           const v1::PauseMigrationRequest* request,
                                                           v1::PauseMigrationResponse* response) {
  return Command(context, request, response, "PauseMigration", OperatorCommand::kPause);
}

grpc::ServerUnaryReactor* MigrationService::ResumeMigration(
    grpc::CallbackServerContext* context, const v1::ResumeMigrationRequest* request,
    v1::ResumeMigrationResponse* response) {
  return Command(context, request, response, "ResumeMigration", OperatorCommand::kResume);
}

grpc::ServerUnaryReactor* MigrationService::AbortMigration(grpc::CallbackServerContext* context,
                                                           const v1::AbortMigrationRequest* request,
                                                           v1::AbortMigrationResponse* response) {
  return Command(context, request, response, "AbortMigration", OperatorCommand::kAbort);
}

grpc::ServerUnaryReactor* MigrationService::UndoMigration(grpc::CallbackServerContext* context,
                                                          const v1::UndoMigrationRequest* request,
                                                          v1::UndoMigrationResponse* response) {
  return Command(context, request, response, "UndoMigration", OperatorCommand::kUndo);
}

}  // namespace warmring
