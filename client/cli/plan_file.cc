#include "client/cli/plan_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "client/cli/number_list.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"

namespace warmring::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 32;
constexpr size_t kMaxBuckets = 1 << 20;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// "; did you mean 'x'?" or the list of what is known here.
std::string Suggestion(std::string_view key, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_distance = 4;
  std::string all;
  for (const std::string& k : known) {
    all += (all.empty() ? "" : ", ") + k;
    const size_t distance = EditDistance(key, k);
    if (distance < best_distance) {
      best_distance = distance;
      best = &k;
    }
  }
  if (best != nullptr) return fmt::format("; did you mean '{}'?", *best);
  return fmt::format("; known here: {}", all);
}

// A number with an optional unit: "80MiB/s", "5000/s", "1.5GB/s". Empty optional when malformed.
std::optional<double> ParseRate(std::string text) {
  if (text.size() > 2 && text.compare(text.size() - 2, 2, "/s") == 0) text.resize(text.size() - 2);
  const size_t unit_at = text.find_first_not_of("0123456789.");
  const std::string unit = unit_at == std::string::npos ? "" : text.substr(unit_at);
  double number = 0;
  if (!absl::SimpleAtod(text.substr(0, unit_at), &number)) return std::nullopt;
  static const std::pair<const char*, double> kUnits[] = {
      {"", 1},     {"B", 1},        {"k", 1e3},         {"kB", 1e3},          {"MB", 1e6},
      {"GB", 1e9}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) return number * factor;
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_(file_name) {}

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path, int depth,
                           Message* message) {
    if (depth > kMaxDepth) return Error(node, path, "is nested too deep");
    if (!node.IsMap()) return Error(node, path, "must be a map of fields");
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return Error(entry.first, path, "has a key that is not a word");
      const std::string key = entry.first.Scalar();
      if (depth == 0 && (key == "apiVersion" || key == "kind")) {
        RETURN_IF_ERROR(CheckEnvelope(key, entry.second, message->GetDescriptor()));
        continue;
      }
      const FieldDescriptor* field = FindField(message->GetDescriptor(), key);
      const std::string inner = path.empty() ? key : path + "." + key;
      if (field == nullptr) {
        return Error(entry.first, inner,
                     "is not a known key" + Suggestion(key, KnownKeys(message->GetDescriptor())));
      }
      if (!seen.insert(field->name()).second) return Error(entry.first, inner, "is given twice");
      RETURN_IF_ERROR(ReadField(entry.second, inner, depth, field, message));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(const YAML::Node& node, const std::string& path, const std::string& what) {
    const YAML::Mark mark = node.Mark();
    return absl::InvalidArgumentError(fmt::format("{}:{}:{}: {}{}{}", file_, mark.line + 1,
                                                  mark.column + 1, path, path.empty() ? "" : " ",
                                                  what));
  }

  static const FieldDescriptor* FindField(const Descriptor* type, const std::string& key) {
    for (int i = 0; i < type->field_count(); ++i) {
      if (type->field(i)->json_name() == key || type->field(i)->name() == key) {
        return type->field(i);
      }
    }
    return nullptr;
  }

  static std::vector<std::string> KnownKeys(const Descriptor* type) {
    std::vector<std::string> keys;
    for (int i = 0; i < type->field_count(); ++i) keys.push_back(type->field(i)->json_name());
    return keys;
  }

  absl::Status CheckEnvelope(const std::string& key, const YAML::Node& value,
                             const Descriptor* type) {
    const std::string expected = key == "kind" ? type->name() : "warmring.io/v1";
    if (value.IsScalar() && value.Scalar() == expected) return absl::OkStatus();
    return Error(value, key, fmt::format("must be '{}'", expected));
  }

  absl::Status ReadField(const YAML::Node& node, const std::string& path, int depth,
                         const FieldDescriptor* field, Message* message) {
    if (field->is_map()) return ReadMap(node, path, field, message);
    if (!field->is_repeated()) return ReadOne(node, path, depth, field, message);
    if (!node.IsSequence()) return Error(node, path, "must be a list");
    for (size_t i = 0; i < node.size(); ++i) {
      RETURN_IF_ERROR(ReadOne(node[i], fmt::format("{}[{}]", path, i), depth, field, message));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMap(const YAML::Node& node, const std::string& path,
                       const FieldDescriptor* field, Message* message) {
    if (!node.IsMap()) return Error(node, path, "must be a map of words");
    for (const auto& entry : node) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
        return Error(entry.second, path, "must map words to words");
      }
      Message* item = message->GetReflection()->AddMessage(message, field);
      const Descriptor* type = item->GetDescriptor();
      item->GetReflection()->SetString(item, type->FindFieldByName("key"), entry.first.Scalar());
      item->GetReflection()->SetString(item, type->FindFieldByName("value"), entry.second.Scalar());
    }
    return absl::OkStatus();
  }

  absl::Status ReadOne(const YAML::Node& node, const std::string& path, int depth,
                       const FieldDescriptor* field, Message* message) {
    const Reflection* reflection = message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* child = field->is_repeated() ? reflection->AddMessage(message, field)
                                            : reflection->MutableMessage(message, field);
      if (field->message_type()->full_name() == "google.protobuf.Duration") {
        return ReadDuration(node, path, child);
      }
      return ReadMessage(node, path, depth + 1, child);
    }
    if (!node.IsScalar()) return Error(node, path, "must be a single value");
    return ReadScalar(node, path, field, message);
  }

  absl::Status ReadDuration(const YAML::Node& node, const std::string& path, Message* child) {
    absl::Duration duration;
    if (!node.IsScalar() || !absl::ParseDuration(node.Scalar(), &duration)) {
      return Error(node, path,
                   fmt::format("'{}' is not a duration (try 45m, 30s, 500ms)",
                               node.IsScalar() ? Printable(node.Scalar()) : "..."));
    }
    if (duration < absl::ZeroDuration() || duration > absl::Hours(24 * 365)) {
      return Error(node, path, fmt::format("'{}' is out of range: 0s to 8760h", node.Scalar()));
    }
    auto* out = google::protobuf::DynamicCastToGenerated<google::protobuf::Duration>(child);
    out->set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
    out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
    return absl::OkStatus();
  }

  absl::Status ReadScalar(const YAML::Node& node, const std::string& path,
                          const FieldDescriptor* field, Message* message) {
    const std::string& text = node.Scalar();
    const std::string shown = Printable(text);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return Put<std::string>(field, message, text, &Reflection::SetString,
                                &Reflection::AddString);
      case FieldDescriptor::CPPTYPE_BOOL:
        if (text != "true" && text != "false") {
          return Error(node, path, fmt::format("'{}' is not true or false", shown));
        }
        return Put<bool>(field, message, text == "true", &Reflection::SetBool,
                         &Reflection::AddBool);
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const bool percent = !text.empty() && text.back() == '%';
        double value = 0;
        if (!absl::SimpleAtod(text.substr(0, text.size() - (percent ? 1 : 0)), &value) ||
            !std::isfinite(value)) {
          return Error(node, path, fmt::format("'{}' is not a number (try 0.1 or 10%)", shown));
        }
        return Put<double>(field, message, percent ? value / 100 : value, &Reflection::SetDouble,
                           &Reflection::AddDouble);
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        if (field->is_repeated()) return ReadBuckets(node, path, field, message);
        uint32_t value = 0;
        if (!absl::SimpleAtoi(text, &value)) {
          return Error(node, path,
                       fmt::format("'{}' is not a whole number from 0 to 4294967295", shown));
        }
        return Put<uint32_t>(field, message, value, &Reflection::SetUInt32, &Reflection::AddUInt32);
      }
      case FieldDescriptor::CPPTYPE_UINT64:
        return ReadUInt64(node, path, field, message);
      case FieldDescriptor::CPPTYPE_ENUM:
        return ReadEnum(node, path, field, message);
      default:
        return Error(node, path, "cannot be given in a file");
    }
  }

  // Lists of whole numbers are buckets, and may be given as spans.
  absl::Status ReadBuckets(const YAML::Node& node, const std::string& path,
                           const FieldDescriptor* field, Message* message) {
    const absl::StatusOr<std::vector<uint32_t>> buckets = ParseBuckets(node.Scalar());
    if (!buckets.ok()) return Error(node, path, std::string(buckets.status().message()));
    const Reflection* reflection = message->GetReflection();
    if (static_cast<size_t>(reflection->FieldSize(*message, field)) + buckets->size() >
        kMaxBuckets) {
      return Error(node, path, fmt::format("has more than {} buckets", kMaxBuckets));
    }
    for (const uint32_t bucket : *buckets) reflection->AddUInt32(message, field, bucket);
    return absl::OkStatus();
  }

  absl::Status ReadUInt64(const YAML::Node& node, const std::string& path,
                          const FieldDescriptor* field, Message* message) {
    const std::string& text = node.Scalar();
    uint64_t value = 0;
    if (field->name().ends_with("_per_second")) {
      const std::optional<double> rate = ParseRate(text);
      if (!rate || *rate < 0 || *rate > 1e15) {
        return Error(node, path,
                     fmt::format("'{}' is not a rate (try 80MiB/s or 5000/s)", Printable(text)));
      }
      value = static_cast<uint64_t>(*rate);
    } else if (!absl::SimpleAtoi(text, &value)) {
      return Error(node, path,
                   fmt::format("'{}' is not a whole number that is not negative", Printable(text)));
    }
    return Put<uint64_t>(field, message, value, &Reflection::SetUInt64, &Reflection::AddUInt64);
  }

  // An enum's value is written without the type's prefix, in lower case: ack_only.
  absl::Status ReadEnum(const YAML::Node& node, const std::string& path,
                        const FieldDescriptor* field, Message* message) {
    const auto* type = field->enum_type();
    const std::string& zero = type->value(0)->name();
    const std::string prefix = zero.substr(0, zero.size() - std::string("UNSPECIFIED").size());
    std::vector<std::string> known;
    for (int i = 1; i < type->value_count(); ++i) {
      std::string word = type->value(i)->name().substr(prefix.size());
      for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (word == node.Scalar()) {
        message->GetReflection()->SetEnumValue(message, field, type->value(i)->number());
        return absl::OkStatus();
      }
      known.push_back(std::move(word));
    }
    return Error(node, path,
                 fmt::format("'{}' is not known{}", Printable(node.Scalar()),
                             Suggestion(node.Scalar(), known)));
  }

  template <typename T, typename Set, typename Add>
  static absl::Status Put(const FieldDescriptor* field, Message* message, const T& value, Set set,
                          Add add) {
    if (field->is_repeated()) {
      (message->GetReflection()->*add)(message, field, value);
    } else {
      (message->GetReflection()->*set)(message, field, value);
    }
    return absl::OkStatus();
  }

  std::string file_;
};

}  // namespace

absl::Status ParseYaml(std::string_view file_name, const std::string& text, Message* message) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: {} bytes: a plan file has at most {} bytes",
                                                  file_name, text.size(), kMaxBytes));
  }
  // yaml-cpp throws; nothing of it passes this function.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() != 1 || documents[0].IsNull()) {
      return absl::InvalidArgumentError(fmt::format("{}: holds {} YAML documents: one is expected",
                                                    file_name,
                                                    documents.size() == 1 ? 0 : documents.size()));
    }
    message->Clear();
    return Reader(file_name).ReadMessage(documents[0], "", 0, message);
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}:{}: {}", file_name, e.mark.line + 1, e.mark.column + 1, e.msg));
  }
}

}  // namespace warmring::cli
