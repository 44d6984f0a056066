#pragma once

#include <functional>
#include <string_view>

namespace warmring {

// What an operator should know and no caller can act on. Goes to standard
// error, one line each, unless the application gives a sink. Any thread.
void Warn(std::string_view message);

using WarningSink = std::function<void(std::string_view)>;
// Null: standard error again.
void SetWarningSink(WarningSink sink);

}  // namespace warmring
