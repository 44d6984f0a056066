#include "client/import/cassandra_ring.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client/import/text_lines.h"
#include "core/base/status_macros.h"

namespace warmring {
namespace {

// Address Rack Status State Load [unit] Owns Token
constexpr size_t kFewestWordsOfNodetool = 7;
constexpr size_t kMostWordsOfNodetool = 8;
constexpr std::string_view kDatacenter = "Datacenter:";
constexpr std::string_view kWarning = "Warning:";

std::optional<int64_t> ParseToken(std::string_view text) {
  int64_t token = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return token;
}

// A bare IPv6 address has more than one colon, and gets brackets.
std::string WithPort(std::string_view address, uint16_t port) {
  const size_t colon = address.find(':');
  if (colon == std::string_view::npos) return fmt::format("{}:{}", address, port);
  const bool bare =
      address.front() != '[' && address.find(':', colon + 1) != std::string_view::npos;
  return bare ? fmt::format("[{}]:{}", address, port) : std::string(address);
}

class RingReader {
 public:
  explicit RingReader(uint16_t port) : port_(port) {}

  absl::Status Read(const TextLine& line) {
    const auto& words = line.words;
    if (words[0] == kDatacenter) return BeginDatacenter(line);
    if (words[0].find_first_not_of('=') == std::string_view::npos || words[0] == "Address") {
      return absl::OkStatus();
    }
    if (words.size() == 1) return ReadTop(line);
    if (words.size() == 2) return AddToken(line, {});
    if (words.size() >= kFewestWordsOfNodetool && words.size() <= kMostWordsOfNodetool &&
        ParseToken(words.back())) {
      return ReadRow(line);
    }
    return LineError(line, fmt::format("'{} {} ...' is neither \"address token\" nor a row of "
                                       "nodetool ring",
                                       Printable(words[0]), Printable(words[1])));
  }

  absl::StatusOr<Fleet> Finish() && {
    if (top_ && (tokens_.empty() || *top_ != highest_)) {
      return absl::InvalidArgumentError(fmt::format(
          "the highest token is not {}, which nodetool prints on top: the file is cut off", *top_));
    }
    return MakeRing({HashSpec::Function::kMurmur3, false}, std::move(nodes_), std::move(tokens_));
  }

 private:
  absl::Status BeginDatacenter(const TextLine& line) {
    if (line.words.size() != 2) return LineError(line, "the name of the datacenter is missing");
    if (!datacenter_.empty()) {
      return LineError(
          line, "a second datacenter: each has a ring of its own; import one of them at a time");
    }
    datacenter_ = std::string(line.words[1]);
    return absl::OkStatus();
  }

  // Above its rows nodetool prints the token where the ring closes.
  absl::Status ReadTop(const TextLine& line) {
    const std::optional<int64_t> token = ParseToken(line.words[0]);
    if (!token || top_ || !tokens_.empty()) {
      return LineError(line, fmt::format("'{}' stands alone", Printable(line.words[0])));
    }
    top_ = token;
    return absl::OkStatus();
  }

  absl::Status ReadRow(const TextLine& line) {
    const std::string_view state = line.words[3];
    if (state != "Normal") {
      return LineError(
          line, fmt::format("{} is {}: import a ring that stands still, all its nodes Normal",
                            Printable(line.words[0]), Printable(state)));
    }
    return AddToken(line, line.words[1]);
  }

  absl::Status AddToken(const TextLine& line, std::string_view rack) {
    const std::optional<int64_t> token = ParseToken(line.words.back());
    if (!token) {
      return LineError(line, fmt::format("token '{}': use a signed 64-bit number",
                                         Printable(line.words.back())));
    }
    const std::string_view name = line.words[0];
    const auto [at, fresh] = index_of_.emplace(name, static_cast<NodeIndex>(nodes_.size()));
    if (fresh) {
      Node node;
      node.id = NodeIdOf(name);
      node.hash_name = std::string(name);
      node.address = WithPort(name, port_);
      node.zone = datacenter_;
      if (!rack.empty()) node.labels["rack"] = std::string(rack);
      if (const absl::Status valid = ValidateNode("node", node); !valid.ok()) {
        return LineError(line, std::string_view(valid.message().data(), valid.message().size()));
      }
      nodes_.push_back(std::move(node));
    }
    highest_ = tokens_.empty() ? *token : std::max(highest_, *token);
    tokens_.push_back({PointOfToken(*token), at->second});
    return absl::OkStatus();
  }

  const uint16_t port_;
  std::string datacenter_;
  std::optional<int64_t> top_;
  int64_t highest_ = 0;
  std::vector<Node> nodes_;
  std::map<std::string_view, NodeIndex> index_of_;
  std::vector<FleetToken> tokens_;
};

}  // namespace

absl::StatusOr<Fleet> ParseCassandraRing(std::string_view text, uint16_t port) {
  ASSIGN_OR_RETURN(const std::vector<TextLine> lines, ReadLines(text));
  RingReader reader(port);
  for (const TextLine& line : lines) {
    // What nodetool has to say after the rows.
    if (line.words[0] == kWarning) break;
    RETURN_IF_ERROR(reader.Read(line));
  }
  return std::move(reader).Finish();
}

}  // namespace warmring
