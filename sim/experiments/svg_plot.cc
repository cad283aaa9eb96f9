#include "sim/experiments/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace berth::sim {
namespace {

constexpr double kLeft = 70;
constexpr double kRight = 640;
constexpr double kTop = 50;
constexpr double kBottom = 420;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

/// A range widened to multiples of a round step.
struct Axis {
  double low = 0;
  double high = 1;
  double step = 1;

  Axis(double least, double most) {
    if (!(most > least)) most = least + 1;
    const double raw = (most - least) / 6;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    step = 10 * power;
    for (const double nice : {1.0, 2.0, 5.0}) {
      if (nice * power >= raw) {
        step = nice * power;
        break;
      }
    }
    low = std::floor(least / step) * step;
    high = std::ceil(most / step) * step;
  }

  int ticks() const { return static_cast<int>(std::lround((high - low) / step)); }
  double tick(int i) const { return low + i * step; }
  double Place(double value, double from, double to) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

std::string Text(double x, double y, const std::string& text, const std::string& more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, Escaped(text));
}

std::string Line(double x1, double y1, double x2, double y2, const std::string& colour,
                 int width = 1) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x1, y1, x2, y2, colour, width);
}

std::string Grid(const Axis& x, const Axis& y) {
  std::string out;
  for (int i = 0; i <= x.ticks(); ++i) {
    const double at = x.Place(x.tick(i), kLeft, kRight);
    out += Line(at, kTop, at, kBottom, "#ddd");
    out += Text(at, kBottom + 18, fmt::format("{:g}", x.tick(i)), " text-anchor=\"middle\"");
  }
  for (int i = 0; i <= y.ticks(); ++i) {
    const double at = y.Place(y.tick(i), kBottom, kTop);
    out += Line(kLeft, at, kRight, at, "#ddd");
    out += Text(kLeft - 6, at + 4, fmt::format("{:g}", y.tick(i)), " text-anchor=\"end\"");
  }
  return out;
}

}  // namespace

std::string RenderSvg(const Plot& plot) {
  // Colour-blind safe (Okabe and Ito), then greys.
  static constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                       "#56b4e9", "#000000", "#999999", "#8b4513", "#6a3d9a"};
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double x_low = kNone, x_high = -kNone, y_low = kNone, y_high = -kNone;
  for (const Series& series : plot.series) {
    for (const auto& [x, y] : series.points) {
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  }
  if (x_low == kNone) x_low = x_high = y_low = y_high = 0;
  const Axis x(x_low, x_high);
  const Axis y(std::min(0.0, y_low), y_high);
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 480\" width=\"800\" "
      "height=\"480\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"800\" height=\"480\" fill=\"#fff\"/>\n";
  out += Text(kLeft, 28, plot.title, " font-size=\"15\"");
  out += Grid(x, y);
  out += Text((kLeft + kRight) / 2, kBottom + 40, plot.x_label, " text-anchor=\"middle\"");
  out += Text(0, 0, plot.y_label,
              fmt::format(" text-anchor=\"middle\" transform=\"translate(20 {:.1f}) rotate(-90)\"",
                          (kTop + kBottom) / 2));
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const std::string colour = kColours[i % kColours.size()];
    std::string points;
    for (const auto& [px, py] : plot.series[i].points) {
      points +=
          fmt::format("{:.1f},{:.1f} ", x.Place(px, kLeft, kRight), y.Place(py, kBottom, kTop));
    }
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n",
                       colour, points);
    const double at = kTop + 10 + 20 * static_cast<double>(i);
    out += Line(kRight + 15, at - 4, kRight + 35, at - 4, colour, 3);
    out += Text(kRight + 42, at, plot.series[i].name);
  }
  return out + "</svg>\n";
}

}  // namespace berth::sim
