#include "server/store/schema/record.h"

#include "core/base/status_macros.h"
#include "server/store/schema/json.h"

namespace warmring::schema {
namespace {

// What comes from outside may be any bytes; in JSON it is valid UTF-8.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string Encode(const HeadRecord& record) {
  return Dump({{"version", record.version.value},
               {"next_epoch", record.next_epoch.value},
               {"digest", record.digest}});
}

absl::StatusOr<HeadRecord> DecodeHead(std::string_view text) {
  HeadRecord record;
  RETURN_IF_ERROR(DecodeJson("the head of a keyspace", text, [&](const Json& json) {
    record.version = Version(json.at("version").get<uint64_t>());
    record.next_epoch = Epoch(json.at("next_epoch").get<uint64_t>());
    record.digest = json.at("digest").get<uint64_t>();
    return record.version.value != 0 && record.next_epoch.value != 0;
  }));
  return record;
}

std::string Encode(const KeyspaceRecord& record) {
  return Dump(
      {{"id", record.id}, {"author", record.author}, {"created", EncodeTime(record.created)}});
}

absl::StatusOr<KeyspaceRecord> DecodeKeyspace(std::string_view text) {
  KeyspaceRecord record;
  RETURN_IF_ERROR(DecodeJson("a keyspace", text, [&](const Json& json) {
    record.id = json.at("id").get<std::string>();
    record.author = json.at("author").get<std::string>();
    record.created = DecodeTime(json.at("created"));
    return IsValidId(record.id);
  }));
  return record;
}

std::string Encode(const VersionRecord& record, std::string_view delta) {
  std::string text = Dump({{"time", EncodeTime(record.time)},
                           {"author", record.author},
                           {"change", record.change},
                           {"migration", record.migration},
                           {"reason", record.reason},
                           {"moved_share", record.moved_share},
                           {"pages", record.pages}});
  text += '\n';
  text += delta;
  return text;
}

absl::StatusOr<VersionEntry> DecodeVersion(std::string_view text) {
  VersionEntry entry;
  // Dumped JSON has no raw newline: the first one ends it.
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  RETURN_IF_ERROR(DecodeJson("a version", line, [&](const Json& json) {
    entry.record.time = DecodeTime(json.at("time"));
    entry.record.author = json.at("author").get<std::string>();
    entry.record.change = json.at("change").get<std::string>();
    entry.record.migration = json.at("migration").get<std::string>();
    entry.record.reason = json.at("reason").get<std::string>();
    entry.record.moved_share = json.at("moved_share").get<double>();
    entry.record.pages = json.at("pages").get<uint64_t>();
    return end != std::string_view::npos;
  }));
  entry.delta = std::string(text.substr(end + 1));
  return entry;
}

std::string Encode(const SessionRecord& record) {
  return Dump({{"incarnation", record.incarnation.ToString()},
               {"term", record.term.value},
               {"waiting", record.waiting},
               {"lease_ns", absl::ToInt64Nanoseconds(record.lease)}});
}

absl::StatusOr<SessionRecord> DecodeSession(std::string_view text) {
  SessionRecord record;
  RETURN_IF_ERROR(DecodeJson("a session", text, [&](const Json& json) {
    record.term = Term(json.at("term").get<uint64_t>());
    record.waiting = json.at("waiting").get<bool>();
    record.lease = absl::Nanoseconds(json.value("lease_ns", int64_t{0}));
    return record.lease >= absl::ZeroDuration() &&
           DecodeId(json.at("incarnation"), record.incarnation);
  }));
  return record;
}

std::string Encode(const RequestRecord& record) {
  return Dump({{"method", record.method},
               {"body", record.body},
               {"keyspace", record.keyspace},
               {"migration", record.migration},
               {"time", EncodeTime(record.time)}});
}

absl::StatusOr<RequestRecord> DecodeRequest(std::string_view text) {
  RequestRecord record;
  RETURN_IF_ERROR(DecodeJson("a request id", text, [&](const Json& json) {
    record.method = json.at("method").get<std::string>();
    record.body = json.at("body").get<uint64_t>();
    record.keyspace = json.at("keyspace").get<std::string>();
    record.migration = json.at("migration").get<std::string>();
    record.time = DecodeTime(json.at("time"));
    return true;
  }));
  return record;
}

std::string Encode(const AuditRecord& record) {
  return Dump({{"time", EncodeTime(record.time)},
               {"term", record.term.value},
               {"identity", record.identity},
               {"author", record.author},
               {"peer", record.peer},
               {"method", record.method},
               {"resource", record.resource},
               {"parameters", record.parameters},
               {"reason", record.reason}});
}

absl::StatusOr<AuditRecord> DecodeAudit(std::string_view text) {
  AuditRecord record;
  RETURN_IF_ERROR(DecodeJson("an audit row", text, [&](const Json& json) {
    record.time = DecodeTime(json.at("time"));
    record.term = Term(json.at("term").get<uint64_t>());
    record.identity = json.at("identity").get<std::string>();
    record.author = json.at("author").get<std::string>();
    record.peer = json.at("peer").get<std::string>();
    record.method = json.at("method").get<std::string>();
    record.resource = json.at("resource").get<std::string>();
    record.parameters = json.at("parameters").get<std::string>();
    record.reason = json.at("reason").get<std::string>();
    return true;
  }));
  return record;
}

}  // namespace warmring::schema
