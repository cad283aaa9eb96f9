#include "kube/device_notes.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace berth::kube {
namespace {

using Element = simdjson::dom::element;
using Matrix = std::vector<std::vector<int>>;

template <typename T>
using Or = std::expected<T, std::string>;

std::unexpected<std::string> Bad(std::string why) { return std::unexpected(std::move(why)); }

/// The root element, which is valid as long as the parser.
Or<Element> Parse(simdjson::dom::parser& parser, std::string_view text) {
  if (text.size() > kMaxDeviceNote) return Bad("longer than 64 KiB");
  Element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) {
    return Bad(simdjson::error_message(error));
  }
  return root;
}

Or<int> Integer(Element value, int least, int most, std::string_view what) {
  std::int64_t number = 0;
  if (value.get_int64().get(number) != simdjson::SUCCESS || number < least || number > most) {
    return Bad(fmt::format("{}: not an integer from {} to {}", what, least, most));
  }
  return static_cast<int>(number);
}

/// A list of integers, of at most `most_items`.
Or<std::vector<int>> Integers(Element value, int most_items, int most, std::string_view what) {
  simdjson::dom::array items;
  if (value.get_array().get(items) != simdjson::SUCCESS) {
    return Bad(fmt::format("{}: not a list", what));
  }
  std::vector<int> numbers;
  for (const Element item : items) {
    if (static_cast<int>(numbers.size()) == most_items) {
      return Bad(fmt::format("{}: more than {} entries", what, most_items));
    }
    const auto number = Integer(item, 0, most, what);
    if (!number) return Bad(number.error());
    numbers.push_back(*number);
  }
  return numbers;
}

/// A list with one integer for every device.
Or<std::vector<int>> ForEach(Element value, int count, int most, std::string_view what) {
  auto numbers = Integers(value, count, most, what);
  if (numbers && static_cast<int>(numbers->size()) != count) {
    return Bad(fmt::format("{}: not as many entries as devices", what));
  }
  return numbers;
}

/// Why the matrix is not a matrix of pairs; empty: it is one.
std::string WhyNoPairs(const Matrix& matrix, std::string_view what) {
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (matrix[i][i] != 0) return fmt::format("{}: device {} to itself is not 0", what, i);
    for (std::size_t j = 0; j < i; ++j) {
      if (matrix[i][j] != matrix[j][i]) {
        return fmt::format("{}: not the same from {} to {} as back", what, i, j);
      }
    }
  }
  return {};
}

Or<Matrix> Pairs(Element value, int count, int most, std::string_view what) {
  simdjson::dom::array rows;
  if (value.get_array().get(rows) != simdjson::SUCCESS)
    return Bad(fmt::format("{}: not a list", what));
  Matrix matrix;
  for (const Element row : rows) {
    if (static_cast<int>(matrix.size()) == count)
      return Bad(fmt::format("{}: more rows than devices", what));
    auto numbers = ForEach(row, count, most, what);
    if (!numbers) return Bad(std::move(numbers.error()));
    matrix.push_back(std::move(*numbers));
  }
  if (static_cast<int>(matrix.size()) != count) {
    return Bad(fmt::format("{}: not as many rows as devices", what));
  }
  if (std::string why = WhyNoPairs(matrix, what); !why.empty()) return Bad(std::move(why));
  return matrix;
}

// --- HAMi ----------------------------------------------------------------------------------------

struct HamiDevice {
  std::string id;
  int index = 0;
  int numa = 0;
};

int AtLeastZero(std::int64_t numa) {
  return static_cast<int>(std::clamp<std::int64_t>(numa, 0, kMaxDeviceGroup));
}

Or<std::vector<HamiDevice>> RegisteredJson(std::string_view text) {
  simdjson::dom::parser parser;
  const auto root = Parse(parser, text);
  if (!root) return Bad(root.error());
  simdjson::dom::array items;
  if (root->get_array().get(items) != simdjson::SUCCESS) return Bad("not a list");
  std::vector<HamiDevice> devices;
  for (const Element item : items) {
    if (static_cast<int>(devices.size()) == kMaxNodeDevices) return Bad("more than 16 devices");
    std::string_view id;
    if (item["id"].get_string().get(id) != simdjson::SUCCESS) return Bad("id: not a text");
    HamiDevice device{.id = std::string(id), .index = static_cast<int>(devices.size())};
    Element index;
    if (item["index"].get(index) == simdjson::SUCCESS) {
      const auto number = Integer(index, 0, kMaxNodeDevices - 1, "index");
      if (!number) return Bad(number.error());
      device.index = *number;
    }
    std::int64_t numa = 0;
    if (item["numa"].get_int64().get(numa) == simdjson::SUCCESS) device.numa = AtLeastZero(numa);
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<std::string_view> Split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(by);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

std::optional<std::int64_t> Number(std::string_view text) {
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

Or<std::vector<HamiDevice>> RegisteredText(std::string_view text) {
  if (text.size() > kMaxDeviceNote) return Bad("longer than 64 KiB");
  std::vector<HamiDevice> devices;
  for (const std::string_view entry : Split(text, ':')) {
    if (static_cast<int>(devices.size()) == kMaxNodeDevices) return Bad("more than 16 devices");
    const auto fields = Split(entry, ',');
    if (fields.size() < 7) return Bad("an entry has fewer than 7 fields");
    HamiDevice device{.id = std::string(fields[0]), .index = static_cast<int>(devices.size())};
    const auto numa = Number(fields[5]);
    if (!numa) return Bad("numa: not a number");
    device.numa = AtLeastZero(*numa);
    if (fields.size() > 7) {
      const auto index = Number(fields[7]);
      if (!index || *index < 0 || *index >= kMaxNodeDevices) return Bad("index: not from 0 to 15");
      device.index = static_cast<int>(*index);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

/// The devices by index, if ids and indices are each given once and the indices are 0 to n-1.
Or<std::vector<HamiDevice>> InOrder(std::vector<HamiDevice> devices) {
  std::set<std::string_view> ids;
  for (const HamiDevice& device : devices) ids.insert(device.id);
  if (ids.size() != devices.size()) return Bad("two devices of one id");
  std::ranges::sort(devices, {}, &HamiDevice::index);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].index != static_cast<int>(i)) return Bad("indices are not 0 to n-1, each once");
  }
  return devices;
}

/// `[{"uuid":U,"score":{V:7}}]`: every device, and for each its score with every other one.
Or<Matrix> HamiScores(std::string_view text, const std::vector<HamiDevice>& devices) {
  simdjson::dom::parser parser;
  const auto root = Parse(parser, text);
  if (!root) return Bad(root.error());
  const auto index_of = [&devices](std::string_view id) -> std::optional<std::size_t> {
    const auto it = std::ranges::find(devices, id, &HamiDevice::id);
    if (it == devices.end()) return std::nullopt;
    return static_cast<std::size_t>(it - devices.begin());
  };
  simdjson::dom::array items;
  if (root->get_array().get(items) != simdjson::SUCCESS) return Bad("not a list");
  constexpr int kNotSaid = -1;
  Matrix matrix(devices.size(), std::vector<int>(devices.size(), kNotSaid));
  for (const Element item : items) {
    std::string_view id;
    simdjson::dom::object scores;
    if (item["uuid"].get_string().get(id) != simdjson::SUCCESS ||
        item["score"].get_object().get(scores) != simdjson::SUCCESS) {
      return Bad("an entry without uuid or score");
    }
    const auto from = index_of(id);
    if (!from) return Bad("a device that is not registered");
    for (const simdjson::dom::key_value_pair entry : scores) {
      const auto to = index_of(entry.key);
      if (!to) return Bad("a device that is not registered");
      const auto score = Integer(entry.value, 0, kMaxDeviceScore, "score");
      if (!score) return Bad(score.error());
      matrix[*from][*to] = *score;
    }
  }
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    matrix[i][i] = 0;
    if (std::ranges::find(matrix[i], kNotSaid) != matrix[i].end()) return Bad("pairs are missing");
  }
  if (std::string why = WhyNoPairs(matrix, "score"); !why.empty()) return Bad(std::move(why));
  return matrix;
}

}  // namespace

Or<DeviceTopology> ParseDeviceTopology(std::string_view text) {
  simdjson::dom::parser parser;
  const auto root = Parse(parser, text);
  if (!root) return Bad(root.error());
  simdjson::dom::object fields;
  if (root->get_object().get(fields) != simdjson::SUCCESS) return Bad("not an object");
  Element count;
  if (fields["count"].get(count) != simdjson::SUCCESS) return Bad("count: missing");
  const auto devices = Integer(count, 1, kMaxNodeDevices, "count");
  if (!devices) return Bad(devices.error());
  DeviceTopology topology{.count = *devices};
  std::set<std::string_view> seen;
  for (const simdjson::dom::key_value_pair field : fields) {
    if (!seen.insert(field.key).second) return Bad("a field is given twice");
    if (field.key == "count") continue;
    if (field.key == "links") {
      auto links = Pairs(field.value, *devices, kMaxDeviceLinks, "links");
      if (!links) return Bad(std::move(links.error()));
      topology.links = std::move(*links);
    } else if (field.key == "numa" || field.key == "rails") {
      auto groups = ForEach(field.value, *devices, kMaxDeviceGroup, field.key);
      if (!groups) return Bad(std::move(groups.error()));
      (field.key == "numa" ? topology.numa : topology.rails) = std::move(*groups);
    } else {
      return Bad("unknown field; there are count, numa, rails and links");
    }
  }
  return topology;
}

Or<DeviceTopology> ParseHamiTopology(std::string_view registered, std::string_view score) {
  const bool json = registered.starts_with('[');
  auto found = json ? RegisteredJson(registered) : RegisteredText(registered);
  if (!found) return Bad(std::move(found.error()));
  auto devices = InOrder(std::move(*found));
  if (!devices) return Bad(std::move(devices.error()));
  if (devices->empty()) return Bad("no devices");
  DeviceTopology topology{.count = static_cast<int>(devices->size())};
  for (const HamiDevice& device : *devices) topology.numa.push_back(device.numa);
  if (!score.empty()) {
    auto scores = HamiScores(score, *devices);
    if (!scores) return Bad(std::move(scores.error()));
    topology.scores = std::move(*scores);
  }
  return topology;
}

Or<std::vector<int>> ParseDevices(std::string_view text, std::string_view resource) {
  simdjson::dom::parser parser;
  const auto root = Parse(parser, text);
  if (!root) return Bad(root.error());
  simdjson::dom::object containers;
  if (root->get_object().get(containers) != simdjson::SUCCESS) return Bad("not an object");
  std::set<int> devices;
  for (const simdjson::dom::key_value_pair container : containers) {
    simdjson::dom::object resources;
    if (container.value.get_object().get(resources) != simdjson::SUCCESS) {
      return Bad("a container is not an object");
    }
    for (const simdjson::dom::key_value_pair given : resources) {
      if (given.key != resource) continue;
      const auto indices = Integers(given.value, kMaxNodeDevices, kMaxNodeDevices - 1, "indices");
      if (!indices) return Bad(indices.error());
      devices.insert(indices->begin(), indices->end());
    }
  }
  return std::vector<int>(devices.begin(), devices.end());
}

std::string EncodeDevices(const std::map<std::string, std::vector<int>>& by_container,
                          std::string_view resource) {
  // The API server lets no name through that JSON would have to escape.
  const auto plain = [](std::string_view name) {
    return std::ranges::none_of(name, [](char c) { return c == '"' || c == '\\' || c < ' '; });
  };
  std::string text = "{";
  for (const auto& [container, indices] : by_container) {
    if (!plain(container) || !plain(resource)) continue;
    if (text.size() > 1) text += ',';
    text += fmt::format(R"("{}":{{"{}":[{}]}})", container, resource, fmt::join(indices, ","));
  }
  return text + '}';
}

}  // namespace berth::kube
