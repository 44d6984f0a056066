#pragma once

#include <string>
#include <vector>

namespace warmring::demo {

// One measured run: events per second, one value a second, beginning `event_at` seconds before the
// change.
struct Series {
  std::string name;
  std::vector<double> rates;
  double event_at = 0;  // index of the moment of the change
  double end_at = 0;    // index of the moment at which it was over; 0 = not shown
};

// Both series on one scale, aligned at the moment of the change.
std::string TerminalChart(const Series& cold, const Series& staged, int height);
std::string SvgChart(const Series& cold, const Series& staged, const std::string& sentence);

}  // namespace warmring::demo
