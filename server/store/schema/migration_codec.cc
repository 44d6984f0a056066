#include "server/store/schema/migration_codec.h"

#include <map>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "fmt/format.h"
#include "server/store/schema/json.h"

namespace warmring::schema {
namespace {

constexpr char kWhat[] = "a migration";

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json EncodeDuration(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }
absl::Duration DecodeDuration(const Json& json) { return absl::Nanoseconds(json.get<int64_t>()); }

// A hash_name is bytes, which JSON cannot hold: two hex digits each.
std::string EncodeBytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

bool DecodeBytes(std::string_view text, std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() % 2 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]);
    const size_t low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return true;
}

Json EncodeNode(const Node& node) {
  return {{"id", node.id},           {"hash_name", EncodeBytes(node.hash_name)},
          {"address", node.address}, {"weight_milli", node.weight_milli},
          {"zone", node.zone},       {"labels", node.labels}};
}

bool DecodeNode(const Json& json, Node& node) {
  node.id = json.at("id").get<std::string>();
  node.address = json.at("address").get<std::string>();
  node.weight_milli = json.at("weight_milli").get<uint32_t>();
  node.zone = json.at("zone").get<std::string>();
  node.labels = json.at("labels").get<std::map<std::string, std::string>>();
  return DecodeBytes(json.at("hash_name").get<std::string>(), node.hash_name);
}

Json EncodeRule(const OverrideRule& rule) {
  return {{"match", static_cast<uint32_t>(rule.match)}, {"bytes", EncodeBytes(rule.bytes)}};
}

bool DecodeRule(const Json& json, OverrideRule& rule) {
  const auto match = json.at("match").get<uint32_t>();
  if (match != 1 && match != 2) return false;
  rule.match = static_cast<OverrideRule::Match>(match);
  return DecodeBytes(json.at("bytes").get<std::string>(), rule.bytes);
}

Json EncodeOverrideRanges(const std::vector<PutOverride::Range>& ranges) {
  Json list = Json::array();
  for (const PutOverride::Range& range : ranges) {
    list.push_back({{"end", range.end}, {"owner", range.owner}});
  }
  return list;
}

std::vector<PutOverride::Range> DecodeOverrideRanges(const Json& json) {
  std::vector<PutOverride::Range> ranges;
  for (const Json& range : json) {
    ranges.push_back({range.at("end").get<HashPoint>(), range.at("owner").get<std::string>()});
  }
  return ranges;
}

Json EncodeOverrideChange(const OverrideChange& change) {
  return {{"plane", change.plane},
          {"rule", EncodeRule(change.rule)},
          {"new", change.is_new},
          {"removed", change.is_removed},
          {"before", EncodeOverrideRanges(change.before)},
          {"after", EncodeOverrideRanges(change.after)}};
}

bool DecodeOverrideChange(const Json& json, OverrideChange& change) {
  change.plane = json.at("plane").get<Plane>();
  change.is_new = json.at("new").get<bool>();
  change.is_removed = json.at("removed").get<bool>();
  change.before = DecodeOverrideRanges(json.at("before"));
  change.after = DecodeOverrideRanges(json.at("after"));
  return DecodeRule(json.at("rule"), change.rule);
}

struct ChangeEncoder {
  Json operator()(const AddNode& add) const { return {{"add", EncodeNode(add.node)}}; }
  Json operator()(const RemoveNode& remove) const {
    return {{"remove", remove.node}, {"dead", remove.is_dead}};
  }
  Json operator()(const ReplaceNode& replace) const {
    return {{"replace",
             {{"node", replace.node}, {"by", EncodeNode(replace.by)}, {"dead", replace.is_dead}}}};
  }
  Json operator()(const SetWeight& set) const {
    return {{"set_weight", {{"node", set.node}, {"weight_milli", set.weight_milli}}}};
  }
  Json operator()(const MoveBuckets& move) const {
    return {{"move_buckets", {{"buckets", move.buckets}, {"to", move.to}, {"pin", move.pin}}}};
  }
  Json operator()(const Unpin& unpin) const { return {{"unpin", {{"buckets", unpin.buckets}}}}; }
  Json operator()(const Rebalance& rebalance) const {
    return {{"rebalance",
             {{"by", static_cast<uint32_t>(rebalance.by)},
              {"bucket_load", rebalance.bucket_load},
              {"tolerance_ppm", rebalance.tolerance_ppm}}}};
  }
  Json operator()(const SetOverride& set) const {
    return {{"set_override", {{"rule", EncodeRule(set.rule)}, {"nodes", set.nodes}}}};
  }
  Json operator()(const RemoveOverride& remove) const {
    return {{"remove_override", {{"rule", EncodeRule(remove.rule)}}}};
  }
};

Json EncodeChange(const Change& change) { return std::visit(ChangeEncoder(), change); }

bool DecodeRebalance(const Json& json, Change& change) {
  Rebalance rebalance;
  const auto by = json.at("by").get<uint32_t>();
  rebalance.by = static_cast<Rebalance::By>(by);
  rebalance.bucket_load = json.at("bucket_load").get<std::vector<uint64_t>>();
  rebalance.tolerance_ppm = json.at("tolerance_ppm").get<uint32_t>();
  change = std::move(rebalance);
  return by == 1 || by == 2;
}

bool DecodeChange(const Json& json, Change& change) {
  if (json.contains("remove")) {
    change = RemoveNode{json.at("remove").get<std::string>(), json.value("dead", false)};
    return true;
  }
  if (json.contains("replace")) {
    ReplaceNode replace;
    replace.node = json.at("replace").at("node").get<std::string>();
    replace.is_dead = json.at("replace").at("dead").get<bool>();
    if (!DecodeNode(json.at("replace").at("by"), replace.by)) return false;
    change = std::move(replace);
    return true;
  }
  if (json.contains("set_weight")) {
    const Json& set = json.at("set_weight");
    change = SetWeight{set.at("node").get<std::string>(), set.at("weight_milli").get<uint32_t>()};
    return true;
  }
  if (json.contains("move_buckets")) {
    const Json& move = json.at("move_buckets");
    change = MoveBuckets{move.at("buckets").get<std::vector<uint32_t>>(),
                         move.at("to").get<std::string>(), move.at("pin").get<bool>()};
    return true;
  }
  if (json.contains("unpin")) {
    change = Unpin{json.at("unpin").at("buckets").get<std::vector<uint32_t>>()};
    return true;
  }
  if (json.contains("rebalance")) return DecodeRebalance(json.at("rebalance"), change);
  if (json.contains("set_override")) {
    SetOverride set;
    set.nodes = json.at("set_override").at("nodes").get<std::vector<NodeId>>();
    if (!DecodeRule(json.at("set_override").at("rule"), set.rule)) return false;
    change = std::move(set);
    return true;
  }
  if (json.contains("remove_override")) {
    RemoveOverride remove;
    if (!DecodeRule(json.at("remove_override").at("rule"), remove.rule)) return false;
    change = std::move(remove);
    return true;
  }
  AddNode add;
  if (!DecodeNode(json.at("add"), add.node)) return false;
  change = std::move(add);
  return true;
}

Json EncodeStrategy(const Strategy& strategy) {
  Json json = {{"commit_steps_ppm", strategy.commit_steps_ppm},
               {"hold", EncodeDuration(strategy.hold)},
               {"soak", EncodeDuration(strategy.soak)},
               {"warm_timeout", EncodeDuration(strategy.warm_timeout)},
               {"await_promotion", strategy.await_promotion},
               {"verify_sample", strategy.verify_sample},
               {"verify_max_mismatch", strategy.verify_max_mismatch},
               {"fence_policy", static_cast<uint32_t>(strategy.fence_policy)},
               {"wave_attempts", strategy.wave_attempts},
               {"on_wave_failure", static_cast<uint32_t>(strategy.on_wave_failure)},
               {"on_conflict", static_cast<uint32_t>(strategy.on_conflict)}};
  if (strategy.fence_timeout) json["fence_timeout"] = EncodeDuration(*strategy.fence_timeout);
  return json;
}

bool DecodeStrategy(const Json& json, Strategy& strategy) {
  strategy.commit_steps_ppm = json.at("commit_steps_ppm").get<std::vector<uint32_t>>();
  strategy.hold = DecodeDuration(json.at("hold"));
  strategy.soak = DecodeDuration(json.at("soak"));
  strategy.warm_timeout = DecodeDuration(json.at("warm_timeout"));
  strategy.await_promotion = json.at("await_promotion").get<bool>();
  strategy.verify_sample = json.at("verify_sample").get<uint32_t>();
  strategy.verify_max_mismatch = json.at("verify_max_mismatch").get<uint32_t>();
  if (json.contains("fence_timeout")) {
    strategy.fence_timeout = DecodeDuration(json.at("fence_timeout"));
  }
  const auto policy = json.at("fence_policy").get<uint32_t>();
  strategy.fence_policy = static_cast<FencePolicy>(policy);
  // The rest is not in records of older servers.
  strategy.wave_attempts = json.value("wave_attempts", 1u);
  const auto on_failure = json.value("on_wave_failure", 1u);
  strategy.on_wave_failure = static_cast<WaveFailure>(on_failure);
  const auto on_conflict = json.value("on_conflict", 1u);
  strategy.on_conflict = static_cast<OnConflict>(on_conflict);
  return policy >= 1 && policy <= 2 && on_failure >= 1 && on_failure <= 2 && on_conflict >= 1 &&
         on_conflict <= 2;
}

Json EncodePlanPart(const MigrationPlan& plan) {
  Json changes = Json::array();
  for (const Change& change : plan.changes) changes.push_back(EncodeChange(change));
  return {{"name", plan.name},
          {"reason", plan.reason},
          {"keyspace", plan.keyspace},
          {"base_version", plan.base_version.value},
          {"changes", std::move(changes)},
          {"strategy", EncodeStrategy(plan.strategy)},
          {"keys_per_second", plan.limits.keys_per_second},
          {"bytes_per_second", plan.limits.bytes_per_second}};
}

bool DecodePlanPart(const Json& json, MigrationPlan& plan) {
  plan.name = json.at("name").get<std::string>();
  plan.reason = json.at("reason").get<std::string>();
  plan.keyspace = json.at("keyspace").get<std::string>();
  plan.base_version = Version(json.at("base_version").get<uint64_t>());
  for (const Json& change : json.at("changes")) {
    plan.changes.emplace_back();
    if (!DecodeChange(change, plan.changes.back())) return false;
  }
  plan.limits.keys_per_second = json.at("keys_per_second").get<uint64_t>();
  plan.limits.bytes_per_second = json.at("bytes_per_second").get<uint64_t>();
  return DecodeStrategy(json.at("strategy"), plan.strategy);
}

Json EncodeShare(const NodeShare& share) {
  return {{"node", share.node},
          {"before", share.before},
          {"after", share.after},
          {"ideal_after", share.ideal_after},
          {"keys_out", share.keys_out},
          {"bytes_out", share.bytes_out},
          {"load_before", share.load_before},
          {"load_after", share.load_after}};
}

NodeShare DecodeShare(const Json& json) {
  NodeShare share;
  share.node = json.at("node").get<std::string>();
  share.before = json.at("before").get<double>();
  share.after = json.at("after").get<double>();
  share.ideal_after = json.at("ideal_after").get<double>();
  share.keys_out = json.at("keys_out").get<uint64_t>();
  share.bytes_out = json.at("bytes_out").get<uint64_t>();
  share.load_before = json.value("load_before", 0.0);
  share.load_after = json.value("load_after", 0.0);
  return share;
}

// What records written by older servers lack.
void EncodeDirectoryPart(const Preview& preview, Json& json) {
  Json reweights = Json::array();
  for (const Reweight& reweight : preview.reweights) {
    reweights.push_back({{"node", reweight.node},
                         {"before_milli", reweight.before_milli},
                         {"after_milli", reweight.after_milli}});
  }
  Json pins = Json::array();
  for (const Pin& pin : preview.pins_put) pins.push_back(Json::array({pin.bucket, pin.node}));
  json["reweights"] = std::move(reweights);
  json["pins_put"] = std::move(pins);
  json["pins_removed"] = preview.pins_removed;
  if (!preview.load.has_value()) return;
  json["load"] = {{"moved_share", preview.load->moved_share},
                  {"ideal_share", preview.load->ideal_share},
                  {"max_over_mean_before", preview.load->max_over_mean_before},
                  {"max_over_mean_after", preview.load->max_over_mean_after}};
}

void DecodeDirectoryPart(const Json& json, Preview& preview) {
  if (!json.contains("reweights")) return;
  for (const Json& reweight : json.at("reweights")) {
    preview.reweights.push_back({reweight.at("node").get<std::string>(),
                                 reweight.at("before_milli").get<uint32_t>(),
                                 reweight.at("after_milli").get<uint32_t>()});
  }
  for (const Json& pin : json.at("pins_put")) {
    preview.pins_put.push_back({pin.at(0).get<uint32_t>(), pin.at(1).get<std::string>()});
  }
  preview.pins_removed = json.at("pins_removed").get<std::vector<uint32_t>>();
  if (!json.contains("load")) return;
  const Json& load = json.at("load");
  preview.load = {load.at("moved_share").get<double>(), load.at("ideal_share").get<double>(),
                  load.at("max_over_mean_before").get<double>(),
                  load.at("max_over_mean_after").get<double>()};
}

// Ids once, and then their places among them: there are many more ranges than nodes. Nobody is the
// empty id.
class FollowerIds {
 public:
  Json Encode(const std::vector<NodeId>& followers) {
    Json places = Json::array();
    for (const NodeId& id : followers) {
      const auto [at, is_new] = places_.emplace(id, ids_.size());
      if (is_new) ids_.push_back(id);
      places.push_back(at->second);
    }
    return places;
  }
  const std::vector<NodeId>& ids() const { return ids_; }

 private:
  std::map<NodeId, size_t> places_;
  std::vector<NodeId> ids_;
};

void EncodeFollowerChanges(const Preview& preview, Json& json) {
  if (preview.follower_changes.empty()) return;
  FollowerIds ids;
  Json changes = Json::array();
  for (const FollowerChange& change : preview.follower_changes) {
    changes.push_back({{"wave", change.wave},
                       {"ranges", EncodeRanges(change.ranges)},
                       {"before", ids.Encode(change.before)},
                       {"after", ids.Encode(change.after)}});
  }
  json["followers"] = ids.ids();
  json["follower_changes"] = std::move(changes);
}

std::vector<NodeId> DecodeFollowers(const Json& json, const std::vector<NodeId>& ids) {
  std::vector<NodeId> followers;
  for (const Json& place : json) followers.push_back(ids.at(place.get<size_t>()));
  return followers;
}

// Absent with replication 1, and in records of older servers.
bool DecodeFollowerChanges(const Json& json, Preview& preview) {
  if (!json.contains("follower_changes")) return true;
  const auto ids = json.at("followers").get<std::vector<NodeId>>();
  for (const Json& change : json.at("follower_changes")) {
    for (const char* const which : {"before", "after"}) {
      for (const Json& place : change.at(which)) {
        if (place.get<size_t>() >= ids.size()) return false;
      }
    }
    FollowerChange& decoded = preview.follower_changes.emplace_back();
    decoded.wave = change.at("wave").get<uint32_t>();
    if (!DecodeRanges(change.at("ranges").get<std::string>(), decoded.ranges)) return false;
    decoded.before = DecodeFollowers(change.at("before"), ids);
    decoded.after = DecodeFollowers(change.at("after"), ids);
  }
  return true;
}

Json EncodePreviewPart(const Preview& preview) {
  Json moves = Json::array();
  for (const PlannedMove& move : preview.moves) {
    moves.push_back({{"wave", move.wave},
                     {"from", move.from},
                     {"to", move.to},
                     {"ranges", EncodeRanges(move.ranges)}});
  }
  Json added = Json::array();
  for (const Node& node : preview.nodes_added) added.push_back(EncodeNode(node));
  Json overrides = Json::array();
  for (const OverrideChange& change : preview.overrides) {
    overrides.push_back(EncodeOverrideChange(change));
  }
  Json shares = Json::array();
  for (const NodeShare& share : preview.shares) shares.push_back(EncodeShare(share));
  Json json = {{"keyspace", preview.keyspace},
               {"base_version", preview.base_version.value},
               {"waves", preview.waves},
               {"moves", std::move(moves)},
               {"nodes_added", std::move(added)},
               {"nodes_removed", preview.nodes_removed},
               {"nodes_dead", preview.nodes_dead},
               {"splits", preview.splits},
               {"moved_share", preview.moved_share},
               {"ideal_share", preview.ideal_share},
               {"modulo_share", preview.modulo_share},
               {"plain_ring_share", preview.plain_ring_share},
               {"max_over_mean_before", preview.max_over_mean_before},
               {"max_over_mean_after", preview.max_over_mean_after},
               {"shares", std::move(shares)},
               {"keys_moved", preview.keys_moved},
               {"bytes_moved", preview.bytes_moved},
               {"overrides", std::move(overrides)},
               {"warnings", preview.warnings}};
  EncodeDirectoryPart(preview, json);
  EncodeFollowerChanges(preview, json);
  return json;
}

bool DecodePreviewPart(const Json& json, Preview& preview) {
  preview.keyspace = json.at("keyspace").get<std::string>();
  preview.base_version = Version(json.at("base_version").get<uint64_t>());
  preview.waves = json.at("waves").get<uint32_t>();
  for (const Json& move : json.at("moves")) {
    PlannedMove& planned = preview.moves.emplace_back();
    planned.wave = move.at("wave").get<uint32_t>();
    planned.from = move.at("from").get<std::string>();
    planned.to = move.at("to").get<std::string>();
    if (!DecodeRanges(move.at("ranges").get<std::string>(), planned.ranges)) return false;
  }
  for (const Json& node : json.at("nodes_added")) {
    if (!DecodeNode(node, preview.nodes_added.emplace_back())) return false;
  }
  preview.nodes_removed = json.at("nodes_removed").get<std::vector<NodeId>>();
  preview.splits = json.at("splits").get<std::vector<HashPoint>>();
  preview.moved_share = json.at("moved_share").get<double>();
  preview.ideal_share = json.at("ideal_share").get<double>();
  preview.modulo_share = json.at("modulo_share").get<double>();
  preview.plain_ring_share = json.value("plain_ring_share", 0.0);
  preview.max_over_mean_before = json.at("max_over_mean_before").get<double>();
  preview.max_over_mean_after = json.at("max_over_mean_after").get<double>();
  for (const Json& share : json.at("shares")) preview.shares.push_back(DecodeShare(share));
  preview.keys_moved = json.at("keys_moved").get<uint64_t>();
  preview.bytes_moved = json.at("bytes_moved").get<uint64_t>();
  // Records from before there were overrides have none.
  for (const Json& change : json.value("overrides", Json::array())) {
    if (!DecodeOverrideChange(change, preview.overrides.emplace_back())) return false;
  }
  preview.nodes_dead = json.value("nodes_dead", std::vector<NodeId>());
  preview.warnings = json.at("warnings").get<std::vector<std::string>>();
  DecodeDirectoryPart(json, preview);
  return DecodeFollowerChanges(json, preview);
}

Json EncodeEvidence(const FenceEvidence& evidence) {
  return {{"donor", evidence.donor},
          {"kind", static_cast<uint32_t>(evidence.kind)},
          {"incarnation", evidence.incarnation.ToString()},
          {"log_id", evidence.log_id},
          {"watermark", evidence.watermark},
          {"dirty_complete", evidence.dirty_complete}};
}

bool DecodeEvidence(const Json& json, FenceEvidence& evidence) {
  evidence.donor = json.at("donor").get<std::string>();
  const auto kind = json.at("kind").get<uint32_t>();
  evidence.kind = static_cast<EvidenceKind>(kind);
  evidence.log_id = json.at("log_id").get<std::string>();
  evidence.watermark = json.at("watermark").get<uint64_t>();
  evidence.dirty_complete = json.at("dirty_complete").get<bool>();
  return kind >= 1 && kind <= 3 && DecodeId(json.at("incarnation"), evidence.incarnation);
}

Json EncodeForced(const ForcedFence& forced) {
  return {{"donor", forced.donor},
          {"author", forced.author},
          {"reason", forced.reason},
          {"time", EncodeTime(forced.time)},
          {"wave", forced.wave},
          {"undo", forced.is_undo},
          {"lease_left", EncodeDuration(forced.lease_left)}};
}

ForcedFence DecodeForced(const Json& json) {
  ForcedFence forced;
  forced.donor = json.at("donor").get<std::string>();
  forced.author = json.at("author").get<std::string>();
  forced.reason = json.at("reason").get<std::string>();
  forced.time = DecodeTime(json.at("time"));
  forced.wave = json.at("wave").get<uint32_t>();
  forced.is_undo = json.at("undo").get<bool>();
  forced.lease_left = DecodeDuration(json.at("lease_left"));
  return forced;
}

// What records written by older servers lack.
void DecodeLaterPart(const Json& json, MigrationRecord& record) {
  if (!json.contains("forced")) return;
  for (const Json& forced : json.at("forced")) record.forced.push_back(DecodeForced(forced));
  record.wave_attempt = json.at("wave_attempt").get<uint32_t>();
  record.queued = json.at("queued").get<bool>();
  record.preempted_by = json.at("preempted_by").get<std::string>();
}

// Names of the format, which stay when those for people change.
std::string EncodeStage(Stage stage) {
  switch (stage) {
    case Stage::kPlanned:
      return "planned";
    case Stage::kWarming:
      return "warming";
    case Stage::kVerifying:
      return "verifying";
    case Stage::kFencing:
      return "fencing";
    case Stage::kCommitted:
      return "committed";
    case Stage::kSoaking:
      return "soaking";
    case Stage::kUndoFencing:
      return "undo-fencing";
    case Stage::kSucceeded:
      return "succeeded";
    case Stage::kAborted:
      return "aborted";
    case Stage::kRolledBack:
      return "rolled-back";
    case Stage::kFailed:
      return "failed";
  }
  return "";
}

bool DecodeStage(const Json& json, Stage& stage) {
  const auto name = json.get<std::string>();
  for (const Stage known : kAllStages) {
    if (EncodeStage(known) == name) {
      stage = known;
      return true;
    }
  }
  return false;
}

Json EncodeHistory(const StageEntry& entry) {
  return {{"stage", EncodeStage(entry.stage)},
          {"wave", entry.wave},
          {"time", EncodeTime(entry.time)},
          {"note", entry.note}};
}

bool DecodeHistory(const Json& json, StageEntry& entry) {
  entry.wave = json.at("wave").get<uint32_t>();
  entry.time = DecodeTime(json.at("time"));
  entry.note = json.at("note").get<std::string>();
  return DecodeStage(json.at("stage"), entry.stage);
}

bool DecodeChangingPart(const Json& json, MigrationRecord& record) {
  record.id = json.at("id").get<std::string>();
  record.author = json.at("author").get<std::string>();
  record.created = DecodeTime(json.at("created"));
  record.revision = json.at("revision").get<uint64_t>();
  record.wave = json.at("wave").get<uint32_t>();
  record.waves_committed = json.at("waves_committed").get<uint32_t>();
  record.wave_epoch = Epoch(json.at("wave_epoch").get<uint64_t>());
  record.attempt = json.at("attempt").get<uint32_t>();
  record.paused = json.at("paused").get<bool>();
  record.awaiting_promotion = json.at("awaiting_promotion").get<bool>();
  record.promoted = json.at("promoted").get<bool>();
  record.abort_requested = json.at("abort_requested").get<bool>();
  record.undo_requested = json.at("undo_requested").get<bool>();
  record.prepared_version = Version(json.at("prepared_version").get<uint64_t>());
  record.final_version = Version(json.at("final_version").get<uint64_t>());
  record.unclean = json.at("unclean").get<bool>();
  for (const Json& evidence : json.at("evidence")) {
    if (!DecodeEvidence(evidence, record.evidence.emplace_back())) return false;
  }
  record.verify_compared = json.at("verify_compared").get<uint64_t>();
  record.verify_mismatched = json.at("verify_mismatched").get<uint64_t>();
  record.failure = json.at("failure").get<std::string>();
  for (const Json& entry : json.at("history")) {
    if (!DecodeHistory(entry, record.history.emplace_back())) return false;
  }
  record.stage_since = DecodeTime(json.at("stage_since"));
  DecodeLaterPart(json, record);
  return DecodeId(json.at("nonce"), record.nonce) && DecodeStage(json.at("stage"), record.stage);
}

absl::Status CheckFormat(std::string_view text) {
  uint32_t format = 0;
  RETURN_IF_ERROR(DecodeJson(kWhat, text, [&](const Json& json) {
    format = json.at("format").get<uint32_t>();
    return format != 0;
  }));
  if (format == kMigrationFormat) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("store: {} is in format {}, this server knows {}: run a newer warmringd", kWhat,
                  format, kMigrationFormat));
}

}  // namespace

std::string EncodePlan(const MigrationRecord& record) {
  return Dump({{"format", kMigrationFormat},
               {"plan", EncodePlanPart(record.plan)},
               {"preview", EncodePreviewPart(record.preview)}});
}

std::string EncodeMigration(const MigrationRecord& record, const PlanPages& pages) {
  Json forced = Json::array();
  for (const ForcedFence& entry : record.forced) forced.push_back(EncodeForced(entry));
  Json evidence = Json::array();
  for (const FenceEvidence& entry : record.evidence) evidence.push_back(EncodeEvidence(entry));
  Json history = Json::array();
  for (const StageEntry& entry : record.history) history.push_back(EncodeHistory(entry));
  return Dump({{"format", kMigrationFormat},
               {"plan_first", pages.first},
               {"plan_pages", pages.count},
               {"id", record.id},
               {"author", record.author},
               {"created", EncodeTime(record.created)},
               {"revision", record.revision},
               {"stage", EncodeStage(record.stage)},
               {"wave", record.wave},
               {"waves_committed", record.waves_committed},
               {"wave_epoch", record.wave_epoch.value},
               {"nonce", record.nonce.ToString()},
               {"attempt", record.attempt},
               {"paused", record.paused},
               {"awaiting_promotion", record.awaiting_promotion},
               {"promoted", record.promoted},
               {"abort_requested", record.abort_requested},
               {"undo_requested", record.undo_requested},
               {"prepared_version", record.prepared_version.value},
               {"final_version", record.final_version.value},
               {"unclean", record.unclean},
               {"evidence", std::move(evidence)},
               {"verify_compared", record.verify_compared},
               {"verify_mismatched", record.verify_mismatched},
               {"failure", record.failure},
               {"forced", std::move(forced)},
               {"wave_attempt", record.wave_attempt},
               {"queued", record.queued},
               {"preempted_by", record.preempted_by},
               {"history", std::move(history)},
               {"stage_since", EncodeTime(record.stage_since)}});
}

absl::StatusOr<PlanPages> PlanPagesOf(std::string_view migration) {
  RETURN_IF_ERROR(CheckFormat(migration));
  PlanPages pages;
  RETURN_IF_ERROR(DecodeJson(kWhat, migration, [&](const Json& json) {
    pages.first = json.value("plan_first", uint64_t{0});
    pages.count = json.at("plan_pages").get<uint64_t>();
    return pages.count != 0;
  }));
  return pages;
}

absl::StatusOr<MigrationRecord> DecodeMigration(std::string_view migration, std::string_view plan) {
  RETURN_IF_ERROR(CheckFormat(migration));
  RETURN_IF_ERROR(CheckFormat(plan));
  MigrationRecord record;
  RETURN_IF_ERROR(DecodeJson(kWhat, migration,
                             [&](const Json& json) { return DecodeChangingPart(json, record); }));
  RETURN_IF_ERROR(DecodeJson("the plan of a migration", plan, [&](const Json& json) {
    return DecodePlanPart(json.at("plan"), record.plan) &&
           DecodePreviewPart(json.at("preview"), record.preview);
  }));
  return record;
}

}  // namespace warmring::schema
