#include "client/import/redis_cluster.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/status_macros.h"

namespace warmring {
namespace {

constexpr NodeIndex kNobody = UINT32_MAX;

absl::Status Unexpected(size_t range, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("CLUSTER SLOTS: entry {} {}: is this a Redis Cluster?", range, what));
}

std::optional<uint32_t> NumberIn(const RedisReply& reply, int64_t low, int64_t high) {
  if (reply.type != RedisReply::Type::kInteger) return std::nullopt;
  if (reply.integer < low || reply.integer > high) return std::nullopt;
  return static_cast<uint32_t>(reply.integer);
}

class SlotReader {
 public:
  explicit SlotReader(std::string_view asked) : asked_(asked), owners_(kRedisSlots, kNobody) {}

  // first slot, last slot, the master as [host, port, id, ...], the replicas.
  absl::Status Read(size_t number, const RedisReply& entry) {
    if (entry.type != RedisReply::Type::kArray || entry.elements.size() < 3) {
      return Unexpected(number, "has not the form [first, last, master, ...]");
    }
    const std::optional<uint32_t> first = NumberIn(entry.elements[0], 0, kRedisSlots - 1);
    const std::optional<uint32_t> last = NumberIn(entry.elements[1], 0, kRedisSlots - 1);
    if (!first || !last || *first > *last) return Unexpected(number, "has slots out of bounds");
    ASSIGN_OR_RETURN(const NodeIndex master, Master(number, entry.elements[2]));
    for (uint32_t slot = *first; slot <= *last; ++slot) {
      if (owners_[slot] != kNobody) {
        return absl::InvalidArgumentError(fmt::format(
            "CLUSTER SLOTS: slot {} is there twice: wait until the cluster agrees", slot));
      }
      owners_[slot] = master;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Fleet> Finish() && {
    Fleet fleet;
    fleet.placement = PlacementKind::kDirectory;
    fleet.hash = {HashSpec::Function::kCrc16, true};
    fleet.directory_bits = kRedisSlotBits;
    fleet.nodes = std::move(nodes_);
    for (uint32_t slot = 0; slot < kRedisSlots; ++slot) {
      if (owners_[slot] == kNobody) {
        return absl::InvalidArgumentError(fmt::format(
            "CLUSTER SLOTS: nobody has slot {}: repair the cluster (redis-cli --cluster fix) first",
            slot));
      }
      fleet.ranges.push_back({BucketEnd(kRedisSlotBits, slot), owners_[slot], Epoch(1)});
    }
    return fleet;
  }

 private:
  absl::StatusOr<NodeIndex> Master(size_t number, const RedisReply& master) {
    if (master.type != RedisReply::Type::kArray || master.elements.size() < 3 ||
        master.elements[2].type != RedisReply::Type::kString) {
      return Unexpected(number, "has not the form [..., [host, port, id]]");
    }
    const std::optional<uint32_t> port = NumberIn(master.elements[1], 1, 65535);
    if (!port) return Unexpected(number, "has no port");
    const std::string& id = master.elements[2].text;
    if (const auto known = index_of_.find(id); known != index_of_.end()) return known->second;
    const RedisReply& host_reply = master.elements[0];
    if (host_reply.type != RedisReply::Type::kString && !host_reply.IsNil()) {
      return Unexpected(number, "has no host");
    }
    const std::string_view host = host_reply.text.empty() ? asked_ : host_reply.text;
    const bool bare_ipv6 = host.find(':') != std::string_view::npos && host.front() != '[';
    const std::string address =
        bare_ipv6 ? fmt::format("[{}]:{}", host, *port) : fmt::format("{}:{}", host, *port);
    ASSIGN_OR_RETURN(Node node, MakeFleetNode(address, address));
    // Nothing is derived from its name.
    node.hash_name.clear();
    for (const Node& other : nodes_) {
      if (other.id != node.id) continue;
      return absl::InvalidArgumentError(fmt::format(
          "CLUSTER SLOTS: two masters are at {}: wait until the cluster agrees", address));
    }
    const auto index = static_cast<NodeIndex>(nodes_.size());
    nodes_.push_back(std::move(node));
    index_of_.emplace(id, index);
    return index;
  }

  const std::string_view asked_;
  std::vector<NodeIndex> owners_;
  std::vector<Node> nodes_;
  std::map<std::string, NodeIndex> index_of_;
};

}  // namespace

absl::StatusOr<Fleet> FleetOfSlots(const RedisReply& slots, std::string_view asked) {
  if (slots.IsError()) {
    return absl::InvalidArgumentError(
        fmt::format("CLUSTER SLOTS: the server says '{}'", Printable(slots.text)));
  }
  if (slots.type != RedisReply::Type::kArray) {
    return absl::InvalidArgumentError("CLUSTER SLOTS: the answer is no list");
  }
  if (slots.elements.size() > kRedisSlots) {
    return absl::InvalidArgumentError(
        fmt::format("CLUSTER SLOTS: {} entries for {} slots", slots.elements.size(), kRedisSlots));
  }
  SlotReader reader(asked);
  for (size_t i = 0; i < slots.elements.size(); ++i) {
    RETURN_IF_ERROR(reader.Read(i, slots.elements[i]));
  }
  return std::move(reader).Finish();
}

bool SlotsMove(std::string_view nodes) {
  // [93-<-292f8b36...] or [77->-e7d1eecc...]; an address in brackets is followed by a port.
  return nodes.find("-<-") != std::string_view::npos || nodes.find("->-") != std::string_view::npos;
}

}  // namespace warmring
