#include "server/service/paging.h"

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "core/base/ids.h"
#include "core/base/reason.h"

namespace warmring {
namespace {

constexpr uint32_t kDefaultSize = 100;
constexpr uint32_t kMaxSize = 1000;
constexpr char kTokenPrefix[] = "p1.";

absl::Status BadField(std::string message) {
  return WithReason(absl::InvalidArgumentError(message), "BAD_FIELD");
}

}  // namespace

absl::StatusOr<Page> ParsePage(uint32_t page_size, const std::string& page_token) {
  if (page_size > kMaxSize) {
    return BadField(fmt::format("page_size: {} is over {}", page_size, kMaxSize));
  }
  Page page;
  page.size = page_size == 0 ? kDefaultSize : page_size;
  if (page_token.empty()) return page;
  const std::string prefix = kTokenPrefix;
  if (page_token.compare(0, prefix.size(), prefix) != 0 ||
      !absl::SimpleAtoi(page_token.substr(prefix.size()), &page.begin)) {
    return BadField(fmt::format(
        "page_token: '{}' is not one that a list answered: leave it empty for the first page",
        Printable(page_token)));
  }
  return page;
}

std::string NextToken(uint64_t next, uint64_t total) {
  return next < total ? fmt::format("{}{}", kTokenPrefix, next) : "";
}

}  // namespace warmring
