#include "tests/e2e/demo/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace warmring::demo {
namespace {

double Highest(const Series& a, const Series& b) {
  double top = 1;
  for (const Series* s : {&a, &b}) {
    for (double r : s->rates) top = std::max(top, r);
  }
  return top;
}

std::string Panel(const Series& series, double top, int height) {
  static const char* const kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out = "  " + series.name + "\n";
  for (int row = height - 1; row >= 0; --row) {
    out += fmt::format("{:>7.0f} │", top * (row + 1) / height);
    for (double rate : series.rates) {
      const double level = rate / top * height - row;
      const int eighth = std::clamp(static_cast<int>(std::lround(level * 8)), 0, 8);
      out += kBlocks[eighth];
    }
    out += "\n";
  }
  std::string axis(series.rates.size(), '-');
  const auto mark = [&axis](double at, char c) {
    if (at > 0 && at < static_cast<double>(axis.size())) axis[static_cast<size_t>(at)] = c;
  };
  mark(series.event_at, '^');
  mark(series.end_at, '|');
  return out + "        └" + axis + "  (1 s a column, ^ node added" +
         (series.end_at > 0 ? ", | migration ended" : "") + ")\n";
}

// Round step that divides the axis into about five.
double Step(double top) {
  const double rough = top / 5;
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  for (double m : {1.0, 2.0, 5.0}) {
    if (m * magnitude >= rough) return m * magnitude;
  }
  return 10 * magnitude;
}

}  // namespace

std::string TerminalChart(const Series& cold, const Series& staged, int height) {
  const double top = Highest(cold, staged);
  return Panel(cold, top, height) + "\n" + Panel(staged, top, height);
}

std::string SvgChart(const Series& cold, const Series& staged, const std::string& sentence) {
  constexpr double kWidth = 900, kHeight = 420, kLeft = 70, kRight = 20, kTop = 60, kBottom = 60;
  const double top = Highest(cold, staged) * 1.08;
  const double before = std::max(cold.event_at, staged.event_at);
  const double after = std::max(static_cast<double>(cold.rates.size()) - cold.event_at,
                                static_cast<double>(staged.rates.size()) - staged.event_at);
  const double scale_x = (kWidth - kLeft - kRight) / std::max(1.0, before + after);
  const double scale_y = (kHeight - kTop - kBottom) / top;
  const auto x = [&](const Series& s, double i) {
    return kLeft + (i - s.event_at + before) * scale_x;
  };
  const auto y = [&](double rate) { return kHeight - kBottom - rate * scale_y; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"16\" font-weight=\"bold\">Origin queries per second "
      "while a fifth cache node joins</text>\n"
      "<text x=\"{2}\" y=\"44\" fill=\"#555555\">{3}</text>\n",
      kWidth, kHeight, kLeft, sentence);
  for (double rate = 0; rate <= top; rate += Step(top)) {
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e0e0e0\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" fill=\"#555555\">{5:.0f}</text>\n",
        kLeft, kWidth - kRight, y(rate), kLeft - 8, y(rate) + 4, rate);
  }
  const double event_x = kLeft + before * scale_x;
  svg += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#888888\" "
      "stroke-dasharray=\"4 3\"/>\n<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" "
      "fill=\"#555555\">node added</text>\n",
      event_x, kTop, kHeight - kBottom, kHeight - kBottom + 18);
  if (staged.end_at > 0) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#1a7f37\" "
        "stroke-dasharray=\"2 4\"/>\n<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" "
        "fill=\"#1a7f37\">migration ended</text>\n",
        x(staged, staged.end_at), kTop, kHeight - kBottom, kHeight - kBottom + 18);
  }
  const auto line = [&](const Series& s, const char* colour) {
    std::string points;
    for (size_t i = 0; i < s.rates.size(); ++i) {
      points += fmt::format("{:.1f},{:.1f} ", x(s, static_cast<double>(i)), y(s.rates[i]));
    }
    return fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\" points=\"{}\"/>\n", colour,
        points);
  };
  svg += line(cold, "#cf222e") + line(staged, "#1a7f37");
  svg += fmt::format(
      "<text x=\"{0}\" y=\"{1}\" fill=\"#cf222e\">&#9644; {2}</text>\n"
      "<text x=\"{3}\" y=\"{1}\" fill=\"#1a7f37\">&#9644; {4}</text>\n</svg>\n",
      kLeft, kHeight - 16, cold.name, kLeft + 300, staged.name);
  return svg;
}

}  // namespace warmring::demo
