#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "client/cli/render/migration_view.h"
#include "client/cli/verbs.h"
#include "google/protobuf/util/json_util.h"

namespace warmring::cli {
namespace {

std::atomic<bool> g_interrupted{false};

void OnInterrupt(int) { g_interrupted.store(true); }

// Draws over what it drew before.
class LiveView {
 public:
  void Draw(const std::string& text) {
    if (lines_ > 0) std::cout << fmt::format("\x1b[{}A\x1b[J", lines_);
    std::cout << text << std::flush;
    lines_ = std::count(text.begin(), text.end(), '\n');
  }

 private:
  std::ptrdiff_t lines_ = 0;
};

// For a log: a line at each change of the state, and of the figures every few seconds.
class EventLog {
 public:
  void Say(const v1::Migration& migration) {
    constexpr auto kPeriod = std::chrono::seconds(5);
    const std::string state =
        MigrationStateText(migration) + migration.held() + migration.failure();
    const auto now = std::chrono::steady_clock::now();
    if (state == last_state_ && now < last_time_ + kPeriod) return;
    last_state_ = state;
    last_time_ = now;
    std::cout << MigrationLine(migration) << std::endl;
  }

 private:
  std::string last_state_;
  std::chrono::steady_clock::time_point last_time_;
};

void PrintEvent(const v1::Migration& migration) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  v1::Migration slim = migration;
  slim.clear_preview();
  slim.clear_plan();
  std::string text;
  if (google::protobuf::util::MessageToJsonString(slim, &text, options).ok()) {
    std::cout << text << "\n" << std::flush;
  }
}

ExitCode EndOf(const v1::Migration& migration) {
  return migration.state() == v1::MIGRATION_STATE_SUCCEEDED ? ExitCode::kDone : ExitCode::kFailed;
}

// Ends the stream when the user interrupts or the time is over; a blocking Read cannot see either.
class Canceller {
 public:
  Canceller(grpc::ClientContext* context, double timeout_seconds)
      : thread_([this, context, timeout_seconds](std::stop_token stop) {
          const auto end =
              std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
          while (!stop.stop_requested()) {
            timed_out_ = timeout_seconds > 0 && std::chrono::steady_clock::now() >= end;
            if (g_interrupted.load() || timed_out_) {
              context->TryCancel();
              return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
        }) {}
  bool timed_out() const { return timed_out_; }

 private:
  std::atomic<bool> timed_out_{false};
  std::jthread thread_;
};

// One stream; returns nothing when it broke and the migration may go on.
std::optional<ExitCode> FollowOnce(Session& session, const std::string& keyspace,
                                   const std::string& id, LiveView* view, grpc::Status* status) {
  v1::WatchMigrationRequest request;
  request.set_keyspace(keyspace);
  request.set_migration(id);
  auto context = session.Stream();
  Canceller canceller(context.get(), session.flags().timeout_seconds);
  auto reader = session.migrations().WatchMigration(context.get(), request);
  v1::WatchMigrationResponse response;
  EventLog log;
  while (reader->Read(&response)) {
    const v1::Migration& migration = response.migration();
    if (session.json()) {
      PrintEvent(migration);
    } else if (view != nullptr) {
      view->Draw(MigrationView(migration));
    } else {
      log.Say(migration);
    }
    if (migration.ended() || migration.awaiting_promotion()) {
      context->TryCancel();
      reader->Finish();
      return migration.ended() ? EndOf(migration) : ExitCode::kNeedsPromotion;
    }
  }
  *status = reader->Finish();
  if (g_interrupted.load()) {
    std::cerr << fmt::format("\ninterrupted; migration {} goes on: warmring watch {}\n", id, id);
    return ExitCode::kInterrupted;
  }
  if (canceller.timed_out()) {
    std::cerr << fmt::format("the time is over; migration {} goes on: warmring watch {}\n", id, id);
    return ExitCode::kTimeout;
  }
  return std::nullopt;
}

ExitCode Watch(Session& session, std::string id) {
  const auto keyspace = session.Keyspace();
  if (!keyspace.ok()) return session.Fail(keyspace.status());
  if (id.empty()) {
    v1::ListMigrationsRequest request;
    request.set_keyspace(*keyspace);
    request.set_page_size(1);
    v1::ListMigrationsResponse response;
    const grpc::Status status =
        session.migrations().ListMigrations(session.Call().get(), request, &response);
    if (!status.ok()) return session.Fail(status);
    if (response.migrations().empty()) {
      return session.Fail(
          absl::NotFoundError(fmt::format("keyspace {} has had no migration yet", *keyspace)));
    }
    id = response.migrations(0).id();
  }
  return FollowMigration(session, *keyspace, id);
}

}  // namespace

ExitCode FollowMigration(Session& session, const std::string& keyspace, const std::string& id) {
  constexpr int kMaxReconnects = 60;
  std::signal(SIGINT, OnInterrupt);
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !session.json();
  LiveView view;
  grpc::Status status;
  // A server that restarts in the middle of a migration must not end the watching.
  for (int attempt = 0; attempt < kMaxReconnects; ++attempt) {
    const std::optional<ExitCode> code =
        FollowOnce(session, keyspace, id, terminal ? &view : nullptr, &status);
    if (code) return *code;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return session.Fail(status);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return session.Fail(status);
}

void AddWatch(CLI::App& app, Run* run) {
  auto id = std::make_shared<std::string>();
  CLI::App* watch = app.add_subcommand("watch", "follow a migration (default: the newest)");
  watch->add_option("migration", *id, "the migration's id");
  watch->callback([run, id] { *run = [id](Session& s) { return Watch(s, *id); }; });
}

}  // namespace warmring::cli
