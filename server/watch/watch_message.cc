#include "server/watch/watch_message.h"

#include <algorithm>

#include "proto/wire/membership.h"
#include "warmring/v1/watch_service.pb.h"

namespace warmring {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

WatchMessage Serialise(std::string_view keyspace, v1::WatchMembershipResponse& response) {
  response.set_keyspace(std::string(keyspace));
  return std::make_shared<const std::string>(response.SerializeAsString());
}

}  // namespace

std::vector<WatchMessage> MakeSnapshot(const Membership& membership) {
  const std::string bytes = wire::ToProto(membership).SerializeAsString();
  const size_t count = std::max<size_t>(1, (bytes.size() + kChunkBytes - 1) / kChunkBytes);
  std::vector<WatchMessage> chunks;
  for (size_t i = 0; i < count; ++i) {
    v1::WatchMembershipResponse response;
    v1::SnapshotChunk* chunk = response.mutable_snapshot();
    chunk->set_version(membership.version().value);
    chunk->set_index(static_cast<uint32_t>(i));
    chunk->set_count(static_cast<uint32_t>(count));
    chunk->set_data(bytes.substr(i * kChunkBytes, kChunkBytes));
    chunks.push_back(Serialise(membership.spec().id, response));
  }
  return chunks;
}

WatchMessage MakeDelta(std::string_view keyspace, const Delta& delta) {
  v1::WatchMembershipResponse response;
  *response.mutable_delta() = wire::ToProto(delta);
  return Serialise(keyspace, response);
}

WatchMessage MakeProgress(std::string_view keyspace, Version version, absl::Time server_time,
                          uint32_t watchers) {
  v1::WatchMembershipResponse response;
  v1::Progress* progress = response.mutable_progress();
  progress->set_version(version.value);
  const int64_t nanos = absl::ToUnixNanos(server_time);
  progress->mutable_server_time()->set_seconds(nanos / 1'000'000'000);
  progress->mutable_server_time()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  progress->set_watchers(watchers);
  return Serialise(keyspace, response);
}

WatchMessage MakeWatchError(std::string_view keyspace, std::string_view reason,
                            std::string_view message) {
  v1::WatchMembershipResponse response;
  response.mutable_error()->set_reason(std::string(reason));
  response.mutable_error()->set_message(std::string(message));
  return Serialise(keyspace, response);
}

}  // namespace warmring
