#include "proto/wire/status.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/reason.h"
#include "warmring/v1/error.pb.h"

namespace warmring::wire {
namespace {

constexpr char kDomain[] = "warmring.io";
constexpr char kErrorInfoUrl[] = "type.googleapis.com/warmring.v1.ErrorInfo";

std::string ImpliedReason(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "BAD_FIELD";
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case absl::StatusCode::kResourceExhausted:
      return "LIMIT_EXCEEDED";
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return "NOT_ALLOWED";
    case absl::StatusCode::kUnimplemented:
      return "UNSUPPORTED";
    default:
      return "";
  }
}

std::optional<Reason> ReasonIn(const std::string& details) {
  v1::Status proto;
  if (details.empty() || !proto.ParseFromString(details)) return std::nullopt;
  for (const v1::StatusDetail& detail : proto.details()) {
    v1::ErrorInfo info;
    if (detail.type_url() != kErrorInfoUrl || !info.ParseFromString(detail.value())) continue;
    if (info.domain() != kDomain) continue;
    return Reason{info.reason(), {info.metadata().begin(), info.metadata().end()}};
  }
  return std::nullopt;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  std::string message(status.message());
  std::optional<Reason> reason = ReasonOf(status);
  if (!reason) reason = Reason{ImpliedReason(status.code()), {}};
  if (reason->name.empty()) return {code, std::move(message)};

  v1::ErrorInfo info;
  info.set_reason(reason->name);
  info.set_domain(kDomain);
  info.mutable_metadata()->insert(reason->metadata.begin(), reason->metadata.end());
  v1::Status proto;
  proto.set_code(static_cast<int>(code));
  proto.set_message(message);
  v1::StatusDetail* detail = proto.add_details();
  detail->set_type_url(kErrorInfoUrl);
  detail->set_value(info.SerializeAsString());
  return {code, std::move(message), proto.SerializeAsString()};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = status.error_message();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      absl::string_view(message.data(), message.size()));
  std::optional<Reason> reason = ReasonIn(status.error_details());
  if (!reason) return result;
  return WithReason(std::move(result), reason->name, std::move(reason->metadata));
}

}  // namespace warmring::wire
