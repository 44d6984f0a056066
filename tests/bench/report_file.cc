#include "tests/bench/report_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

namespace warmring::bench {

bool WriteReport(std::string_view program, const std::string& path,
                 const nlohmann::ordered_json& report) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (file) return true;
  fmt::print(stderr, "{}: --out: cannot write {}\n", program, path);
  return false;
}

}  // namespace warmring::bench
