// Line plots as SVG, drawn without a library.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace berth::sim {

/// One line of a plot.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< By rising x.
};

/// Lines over common axes.
struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;  ///< Only ten have distinct colours.
};

/// A standalone SVG document of 800 x 480 with axes from round numbers and a legend.
std::string RenderSvg(const Plot& plot);

}  // namespace berth::sim
