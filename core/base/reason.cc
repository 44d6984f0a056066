#include "core/base/reason.h"

#include <utility>

#include "absl/strings/cord.h"
#include "core/base/byte_reader.h"
#include "core/base/byte_writer.h"

namespace warmring {
namespace {

constexpr char kTypeUrl[] = "warmring.io/reason";
constexpr size_t kMaxBytes = 64 * 1024;
constexpr size_t kMaxEntries = 64;

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view name,
                        std::map<std::string, std::string> metadata) {
  if (status.ok()) return status;
  ByteWriter writer;
  writer.String(name);
  writer.Varint(metadata.size());
  for (const auto& [key, value] : metadata) {
    writer.String(key);
    writer.String(value);
  }
  status.SetPayload(kTypeUrl, absl::Cord(writer.Take()));
  return status;
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kTypeUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  ByteReader reader(bytes);
  Reason reason;
  reason.name = reader.String("reason", kMaxBytes);
  const size_t entries = reader.Count("metadata", kMaxEntries, 2);
  for (size_t i = 0; i < entries; ++i) {
    std::string key = reader.String("key", kMaxBytes);
    reason.metadata[std::move(key)] = reader.String("value", kMaxBytes);
  }
  if (!reader.Finish().ok()) return std::nullopt;
  return reason;
}

std::string ReasonNameOf(const absl::Status& status) {
  const std::optional<Reason> reason = ReasonOf(status);
  return reason ? reason->name : std::string();
}

}  // namespace warmring
