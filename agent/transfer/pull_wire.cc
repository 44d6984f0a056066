#include "agent/transfer/pull_wire.h"

#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "proto/wire/membership.h"
#include "proto/wire/migration.h"

namespace warmring {
namespace {

v1::PullResponse BatchToProto(EntryBatch batch) {
  v1::PullResponse response;
  v1::Batch& proto = *response.mutable_batch();
  proto.set_scan(batch.scan);
  proto.set_keys_total(batch.keys_total);
  proto.mutable_entries()->Reserve(static_cast<int>(batch.entries.size()));
  for (EngineEntry& entry : batch.entries) {
    v1::Entry& out = *proto.add_entries();
    out.set_key(std::move(entry.key));
    out.set_absent(entry.absent);
    out.set_payload(std::move(entry.payload));
    out.set_ttl_ms(entry.ttl_ms);
    out.set_frequency(entry.frequency);
  }
  return response;
}

EntryBatch BatchFromProto(v1::Batch* proto) {
  EntryBatch batch;
  batch.scan = proto->scan();
  batch.keys_total = proto->keys_total();
  batch.entries.reserve(static_cast<size_t>(proto->entries_size()));
  for (v1::Entry& entry : *proto->mutable_entries()) {
    batch.entries.push_back({std::move(*entry.mutable_key()), entry.absent(),
                             std::move(*entry.mutable_payload()), entry.ttl_ms(),
                             entry.frequency()});
  }
  return batch;
}

v1::PullResponse DigestsToProto(const DigestBatch& batch) {
  v1::PullResponse response;
  v1::DigestBatch& proto = *response.mutable_digests();
  proto.set_done(batch.done);
  for (const DigestBatch::Digest& digest : batch.digests) {
    v1::KeyDigest& out = *proto.add_digests();
    out.set_key(digest.key);
    out.set_absent(digest.absent);
    out.set_digest(digest.digest);
  }
  return response;
}

DigestBatch DigestsFromProto(const v1::DigestBatch& proto) {
  DigestBatch batch;
  batch.done = proto.done();
  for (const v1::KeyDigest& digest : proto.digests()) {
    batch.digests.push_back({digest.key(), digest.absent(), digest.digest()});
  }
  return batch;
}

struct ItemToProto {
  v1::PullResponse operator()(EntryBatch& batch) const { return BatchToProto(std::move(batch)); }
  v1::PullResponse operator()(const LogPosition& position) const {
    v1::PullResponse response;
    response.mutable_cursor()->set_log_id(position.log_id);
    response.mutable_cursor()->set_position(position.position);
    return response;
  }
  v1::PullResponse operator()(const ScanEnd& end) const {
    v1::PullResponse response;
    response.mutable_scan_done()->set_keys(end.keys);
    return response;
  }
  v1::PullResponse operator()(const DigestBatch& batch) const { return DigestsToProto(batch); }
  v1::PullResponse operator()(const SuspectNote& note) const {
    v1::PullResponse response;
    response.mutable_suspect()->set_reason(note.reason);
    return response;
  }
  v1::PullResponse operator()(const DirtyEnd& end) const {
    v1::PullResponse response;
    v1::DirtyDone& proto = *response.mutable_dirty_done();
    proto.set_keys(end.keys);
    proto.set_complete(end.complete);
    proto.set_log_id(end.watermark.log_id);
    proto.set_watermark(end.watermark.position);
    return response;
  }
};

}  // namespace

v1::PullStart PullOrderToProto(const PullOrder& order) {
  v1::PullStart proto;
  proto.set_keyspace(order.keyspace);
  proto.set_history(order.history.ToString());
  proto.set_migration(order.migration);
  proto.set_nonce(order.nonce.ToString());
  proto.set_mode(order.mode == PullMode::kCopy ? v1::PULL_MODE_COPY : v1::PULL_MODE_DIRTY);
  *proto.mutable_ranges() = wire::ToProto(order.ranges);
  *proto.mutable_limits() = wire::ToProto(order.limits);
  proto.set_recipient(order.recipient);
  return proto;
}

absl::StatusOr<PullOrder> PullOrderFromProto(const v1::PullStart& proto) {
  PullOrder order;
  RETURN_IF_ERROR(ValidateId("start.keyspace", proto.keyspace()));
  RETURN_IF_ERROR(ValidateId("start.migration", proto.migration()));
  RETURN_IF_ERROR(ValidateId("start.recipient", proto.recipient()));
  order.keyspace = proto.keyspace();
  order.migration = proto.migration();
  order.recipient = proto.recipient();
  ASSIGN_OR_RETURN(order.history, wire::IdFromProto<HistoryId>("start.history", proto.history()));
  ASSIGN_OR_RETURN(order.nonce, wire::IdFromProto<Id128>("start.nonce", proto.nonce()));
  if (proto.mode() != v1::PULL_MODE_COPY && proto.mode() != v1::PULL_MODE_DIRTY) {
    return absl::InvalidArgumentError(
        fmt::format("start.mode: {} is not a mode; use PULL_MODE_COPY or PULL_MODE_DIRTY",
                    static_cast<int>(proto.mode())));
  }
  order.mode = proto.mode() == v1::PULL_MODE_COPY ? PullMode::kCopy : PullMode::kDirty;
  ASSIGN_OR_RETURN(order.ranges, wire::HashRangesFromProto("start.ranges", proto.ranges()));
  if (order.ranges.empty()) {
    return absl::InvalidArgumentError("start.ranges: empty; name at least one range");
  }
  order.limits = wire::LimitsFromProto(proto.limits());
  return order;
}

v1::PullVerify VerifyRequestToProto(const VerifyRequest& request) {
  v1::PullVerify proto;
  proto.set_sample(request.sample);
  for (const std::string& key : request.keys) proto.add_keys(key);
  return proto;
}

VerifyRequest VerifyRequestFromProto(const v1::PullVerify& proto) {
  VerifyRequest request;
  request.sample = proto.sample();
  request.keys.assign(proto.keys().begin(), proto.keys().end());
  return request;
}

v1::PullResponse PullItemToProto(PullItem item) { return std::visit(ItemToProto(), item); }

absl::StatusOr<PullItem> PullItemFromProto(v1::PullResponse proto) {
  switch (proto.response_case()) {
    case v1::PullResponse::kBatch:
      return BatchFromProto(proto.mutable_batch());
    case v1::PullResponse::kCursor:
      return LogPosition{proto.cursor().log_id(), proto.cursor().position()};
    case v1::PullResponse::kScanDone:
      return ScanEnd{proto.scan_done().keys()};
    case v1::PullResponse::kDigests:
      return DigestsFromProto(proto.digests());
    case v1::PullResponse::kSuspect:
      return SuspectNote{proto.suspect().reason()};
    case v1::PullResponse::kDirtyDone:
      return DirtyEnd{proto.dirty_done().keys(),
                      proto.dirty_done().complete(),
                      {proto.dirty_done().log_id(), proto.dirty_done().watermark()}};
    case v1::PullResponse::RESPONSE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("response: empty, or of a kind that this agent does not know");
}

}  // namespace warmring
