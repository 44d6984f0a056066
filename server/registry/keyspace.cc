#include "server/registry/keyspace.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "core/membership/encoding.h"
#include "core/placement/allocator.h"
#include "core/placement/preference.h"
#include "fmt/format.h"
#include "server/store/schema/key.h"

namespace warmring {
namespace {

constexpr Epoch kFirstEpoch{1};
constexpr Version kFirstVersion{1};
constexpr size_t kPagesPerBatch = 12;

absl::Status Damaged(const KeyspaceId& id, Version version, std::string_view why) {
  return absl::DataLossError(fmt::format(
      "store: keyspace {} version {} is damaged ({}): restore the data directory from a "
      "copy",
      id, version.value, why));
}

// Adds the pages of a membership to `before`; returns how many.
uint64_t AddPages(const Membership& membership, std::vector<Batch>& before) {
  const std::string bytes = EncodeMembership(membership.data());
  uint64_t pages = 0;
  for (size_t at = 0; at < bytes.size(); at += schema::kPageBytes, ++pages) {
    if (pages % kPagesPerBatch == 0) before.emplace_back();
    before.back().Put(schema::PageKey(membership.spec().id, membership.version(), pages),
                      bytes.substr(at, schema::kPageBytes));
  }
  return pages;
}

std::shared_ptr<const Head> MakeHead(Membership::Ptr membership, Epoch next_epoch) {
  auto head = std::make_shared<Head>();
  head->stored =
      schema::Encode(schema::HeadRecord{membership->version(), next_epoch, membership->digest()});
  head->membership = std::move(membership);
  head->next_epoch = next_epoch;
  return head;
}

schema::VersionRecord ToRecord(const VersionNote& note, absl::Time now) {
  schema::VersionRecord record;
  record.time = now;
  record.author = note.author;
  record.change = note.change;
  record.migration = note.migration;
  record.reason = note.reason;
  return record;
}

double MovedShare(const Membership& from, const Membership& to) {
  double share = 0;
  for (const RangeMove& move : Diff(from, to)) share += move.ranges.Share();
  return share;
}

absl::StatusOr<schema::VersionEntry> ReadVersion(Store& store, const KeyspaceId& id,
                                                 Version version) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, store.Get(schema::DeltaKey(id, version)));
  if (!text) return Damaged(id, version, "it is missing");
  return schema::DecodeVersion(*text);
}

absl::StatusOr<Membership::Ptr> ReadPages(Store& store, const KeyspaceId& id, Version version,
                                          uint64_t pages) {
  std::string bytes;
  for (uint64_t page = 0; page < pages; ++page) {
    ASSIGN_OR_RETURN(const std::optional<std::string> part,
                     store.Get(schema::PageKey(id, version, page)));
    if (!part) return Damaged(id, version, fmt::format("page {} of {} is missing", page, pages));
    bytes += *part;
  }
  absl::StatusOr<Membership::Ptr> membership = DecodeMembership(bytes);
  if (!membership.ok()) {
    return Damaged(id, version, std::string(membership.status().message()));
  }
  return membership;
}

// The nearest version that is kept in whole, with the deltas after it applied.
absl::StatusOr<Membership::Ptr> ReadMembership(Store& store, const KeyspaceId& id,
                                               Version version) {
  std::vector<std::string> deltas;  // newest first
  Version at = version;
  while (true) {
    ASSIGN_OR_RETURN(schema::VersionEntry entry, ReadVersion(store, id, at));
    if (entry.record.pages != 0) {
      ASSIGN_OR_RETURN(Membership::Ptr membership, ReadPages(store, id, at, entry.record.pages));
      for (auto delta = deltas.rbegin(); delta != deltas.rend(); ++delta) {
        absl::StatusOr<Delta> decoded = DecodeDelta(*delta);
        absl::StatusOr<Membership::Ptr> next =
            decoded.ok() ? ApplyDelta(*membership, *decoded) : decoded.status();
        if (!next.ok()) {
          return Damaged(id, membership->version().Next(), std::string(next.status().message()));
        }
        membership = *std::move(next);
      }
      return membership;
    }
    if (at == kFirstVersion) return Damaged(id, at, "it is not there in whole");
    deltas.push_back(std::move(entry.delta));
    at = Version(at.value - 1);
  }
}

}  // namespace

absl::StatusOr<HeadChange> Keyspace::Create(const HistoryId& history, const KeyspaceSpec& spec,
                                            std::vector<Node> nodes, const VersionNote& note,
                                            absl::Time now) {
  RETURN_IF_ERROR(ValidatePlacementSize(spec, nodes));
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  MembershipData data;
  data.history = history;
  data.version = kFirstVersion;
  data.spec = spec;
  data.ranges = InitialRanges(spec, nodes, kFirstEpoch);
  ASSIGN_OR_RETURN(data.followers, PreferenceLists(spec, nodes, data.ranges));
  data.nodes = std::move(nodes);
  ASSIGN_OR_RETURN(Membership::Ptr membership, Membership::Create(std::move(data)));

  HeadChange change;
  schema::VersionRecord record = ToRecord(note, now);
  record.pages = AddPages(*membership, change.before);
  change.next = MakeHead(std::move(membership), kFirstEpoch.Next());
  change.batch.RequireAbsent(schema::HeadKey(spec.id))
      .Put(schema::SpecKey(spec.id),
           schema::Encode(schema::KeyspaceRecord{spec.id, note.author, now}))
      .Put(schema::DeltaKey(spec.id, kFirstVersion), schema::Encode(record, ""))
      .Put(schema::HeadKey(spec.id), change.next->stored);
  return change;
}

absl::StatusOr<std::unique_ptr<Keyspace>> Keyspace::Load(Store& store, const HistoryId& history,
                                                         const KeyspaceId& id) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, store.Get(schema::HeadKey(id)));
  if (!text) {
    return absl::NotFoundError(fmt::format("keyspace {}: it does not exist", Printable(id)));
  }
  ASSIGN_OR_RETURN(const schema::HeadRecord record, schema::DecodeHead(*text));
  ASSIGN_OR_RETURN(Membership::Ptr membership, ReadMembership(store, id, record.version));
  if (membership->digest() != record.digest || membership->history() != history ||
      membership->spec().id != id) {
    return Damaged(id, record.version, "its digest, history or id is not the one of its head");
  }
  auto head = std::make_shared<Head>();
  head->membership = std::move(membership);
  head->next_epoch = record.next_epoch;
  head->stored = *text;
  return std::make_unique<Keyspace>(std::move(head));
}

Keyspace::Keyspace(std::shared_ptr<const Head> head)
    : id_(head->membership->spec().id), head_(std::move(head)) {}

std::shared_ptr<const Head> Keyspace::head() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return head_;
}

absl::StatusOr<HeadChange> Keyspace::Prepare(const std::optional<Update>& update,
                                             bool reserve_epoch, const VersionNote& note,
                                             absl::Time now) const {
  const std::shared_ptr<const Head> base = head();
  const Epoch next_epoch = reserve_epoch ? base->next_epoch.Next() : base->next_epoch;
  HeadChange change;
  change.batch.RequireValue(schema::HeadKey(id_), base->stored);
  Membership::Ptr membership = base->membership;
  if (update) {
    ASSIGN_OR_RETURN(membership, Apply(*base->membership, *update));
    change.delta = Delta{membership->history(), base->membership->version(), membership->version(),
                         *update, membership->digest()};
    const std::string bytes = EncodeDelta(*change.delta);
    if (bytes.size() > kMaxDeltaBytes) {
      return absl::InvalidArgumentError(fmt::format(
          "the change takes {} bytes, over the limit of {}: make fewer changes at once, "
          "or commit in more waves",
          bytes.size(), kMaxDeltaBytes));
    }
    schema::VersionRecord record = ToRecord(note, now);
    record.moved_share = MovedShare(*base->membership, *membership);
    if (membership->version().value % kVersionsPerSnapshot == 0) {
      record.pages = AddPages(*membership, change.before);
    }
    change.batch.Put(schema::DeltaKey(id_, membership->version()), schema::Encode(record, bytes));
  }
  change.next = MakeHead(std::move(membership), next_epoch);
  change.batch.Put(schema::HeadKey(id_), change.next->stored);
  return change;
}

void Keyspace::Install(const HeadChange& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  head_ = change.next;
}

absl::StatusOr<Membership::Ptr> Keyspace::MembershipAt(Store& store, Version version) const {
  const std::shared_ptr<const Head> present = head();
  if (version.value == 0 || version == present->membership->version()) return present->membership;
  if (version > present->membership->version()) {
    return absl::NotFoundError(
        fmt::format("version: {} does not exist, keyspace {} is at {}: use 1 to {}, or 0 for the "
                    "newest",
                    version.value, id_, present->membership->version().value,
                    present->membership->version().value));
  }
  return ReadMembership(store, id_, version);
}

absl::StatusOr<std::vector<Keyspace::VersionInfo>> Keyspace::Versions(Store& store, Version newest,
                                                                      size_t limit) const {
  std::vector<VersionInfo> result;
  for (Version at = newest; at.value >= 1 && result.size() < limit; at = Version(at.value - 1)) {
    ASSIGN_OR_RETURN(schema::VersionEntry entry, ReadVersion(store, id_, at));
    result.push_back({at, std::move(entry.record)});
  }
  return result;
}

absl::StatusOr<std::vector<Delta>> Keyspace::LatestDeltas(Store& store, size_t limit) const {
  std::vector<Delta> deltas;
  const Version newest = head()->membership->version();
  for (Version at = newest; at > kFirstVersion && deltas.size() < limit;
       at = Version(at.value - 1)) {
    ASSIGN_OR_RETURN(const schema::VersionEntry entry, ReadVersion(store, id_, at));
    absl::StatusOr<Delta> delta = DecodeDelta(entry.delta);
    if (!delta.ok()) return Damaged(id_, at, std::string(delta.status().message()));
    deltas.push_back(*std::move(delta));
  }
  std::reverse(deltas.begin(), deltas.end());
  return deltas;
}

}  // namespace warmring
