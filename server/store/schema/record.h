#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/ids.h"

// The small values of the store, as JSON. Equal values have equal text, so that a value can be a
// guard. Pure, any thread. Decode errors: DataLoss.

namespace warmring::schema {

// ks/{keyspace}/head
struct HeadRecord {
  Version version;
  Epoch next_epoch;
  uint64_t digest = 0;  // of the membership at `version`
  friend bool operator==(const HeadRecord&, const HeadRecord&) = default;
};
std::string Encode(const HeadRecord& record);
absl::StatusOr<HeadRecord> DecodeHead(std::string_view text);

// ks/{keyspace}/spec: that the keyspace exists, and since when. What it is stands in its
// memberships.
struct KeyspaceRecord {
  KeyspaceId id;
  std::string author;
  absl::Time created;
  friend bool operator==(const KeyspaceRecord&, const KeyspaceRecord&) = default;
};
std::string Encode(const KeyspaceRecord& record);
absl::StatusOr<KeyspaceRecord> DecodeKeyspace(std::string_view text);

// The head line of ks/{keyspace}/delta/{version}; the encoded delta follows, empty for the first
// version, which has nothing before it.
struct VersionRecord {
  absl::Time time;
  std::string author;
  std::string change;  // in a few words
  std::string migration;
  std::string reason;
  double moved_share = 0;
  uint64_t pages = 0;  // this version is also there in whole; 0 = it is not
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};
std::string Encode(const VersionRecord& record, std::string_view delta);
struct VersionEntry {
  VersionRecord record;
  std::string delta;
};
absl::StatusOr<VersionEntry> DecodeVersion(std::string_view text);

// sess/{keyspace}/{node}
struct SessionRecord {
  Incarnation incarnation;
  Term term;  // in which it was opened last
  // It took another incarnation's place and was granted no lease yet: the other one may hold one.
  bool waiting = false;
  // The longest lease that the node may hold: of the server that opened it, or of an earlier one
  // that granted longer ones. Zero: written by a server that did not say.
  absl::Duration lease;
  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};
std::string Encode(const SessionRecord& record);
absl::StatusOr<SessionRecord> DecodeSession(std::string_view text);

// req/{principal}/{id}: which resource the request made or changed.
struct RequestRecord {
  std::string method;
  uint64_t body = 0;  // XXH3_64 of the request as it came
  KeyspaceId keyspace;
  MigrationId migration;
  absl::Time time;
  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};
std::string Encode(const RequestRecord& record);
absl::StatusOr<RequestRecord> DecodeRequest(std::string_view text);

// audit/{time}/{n}
struct AuditRecord {
  absl::Time time;
  Term term;
  std::string identity;
  std::string author;  // what the caller says about itself; for people
  std::string peer;
  std::string method;
  std::string resource;
  std::string parameters;
  std::string reason;
  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};
std::string Encode(const AuditRecord& record);
absl::StatusOr<AuditRecord> DecodeAudit(std::string_view text);

}  // namespace warmring::schema
