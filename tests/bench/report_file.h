#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace warmring::bench {

// Writes the report to the file `path` that --out named, or does nothing if it is empty. False,
// after a word on stderr in the name of `program`, if the file cannot be written.
bool WriteReport(std::string_view program, const std::string& path,
                 const nlohmann::ordered_json& report);

}  // namespace warmring::bench
