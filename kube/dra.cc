#include "kube/dra.h"

#include <simdjson.h>

#include <algorithm>
#include <cctype>

#include "kube/decode_reader.h"

namespace berth::kube {
namespace {

using internal::DecodeStrictly;
using internal::Reader;
using Object = Reader::Object;
using Element = Reader::Element;

constexpr std::size_t kMaxDevices = 128;  ///< In a slice and in a claim; Kubernetes' own limits.
constexpr std::size_t kMaxAttributes = 256;
constexpr std::size_t kMaxOwners = 64;
constexpr std::size_t kMaxConsumers = 256;  ///< Kubernetes' own limit.
constexpr std::size_t kMaxSelectors = 32;
constexpr std::size_t kMaxExpression = 10 * 1024;
constexpr std::string_view kExtendedClaim = "resource.kubernetes.io/extended-resource-claim";

std::int64_t Int64(Reader& reader, Object object, std::string_view key, std::int64_t fallback) {
  std::int64_t result = fallback;
  reader.Field(object, key, [&](Element value) {
    if (value.get_int64().get(result) != simdjson::SUCCESS) reader.Problem("not an integer");
  });
  return result;
}

/// Scans a CEL expression of the one form that is supported.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : left_(text) {}

  bool Take(std::string_view word) {
    Skip();
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }

  /// A text without escapes, in either kind of quotes.
  std::optional<std::string> Quoted() {
    Skip();
    if (left_.empty() || (left_.front() != '"' && left_.front() != '\'')) return std::nullopt;
    const std::size_t end = left_.find(left_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(left_.substr(1, end - 1));
    if (text.find('\\') != std::string::npos) return std::nullopt;
    left_.remove_prefix(end + 1);
    return text;
  }

  std::optional<std::string> Identifier() {
    std::size_t end = 0;
    while (end < left_.size() &&
           (std::isalnum(static_cast<unsigned char>(left_[end])) != 0 || left_[end] == '_')) {
      ++end;
    }
    if (end == 0) return std::nullopt;
    std::string name(left_.substr(0, end));
    left_.remove_prefix(end);
    return name;
  }

  bool AtEnd() {
    Skip();
    return left_.empty();
  }

 private:
  void Skip() {
    while (!left_.empty() && std::isspace(static_cast<unsigned char>(left_.front())) != 0) {
      left_.remove_prefix(1);
    }
  }

  std::string_view left_;
};

/// `device.driver == "D"` or `device.attributes["D"].NAME == "V"`.
bool TakeComparison(Cursor& cursor, DeviceMatch& match) {
  if (cursor.Take("device.driver")) {
    if (!cursor.Take("==")) return false;
    const auto driver = cursor.Quoted();
    if (!driver || (!match.driver.empty() && match.driver != *driver)) return false;
    match.driver = *driver;
    return true;
  }
  if (!cursor.Take("device.attributes[")) return false;
  const auto domain = cursor.Quoted();
  if (!domain || !cursor.Take("].")) return false;
  const auto name = cursor.Identifier();
  if (!name || !cursor.Take("==")) return false;
  const auto value = cursor.Quoted();
  if (!value) return false;
  match.attributes.emplace_back(*domain + '/' + *name, *value);
  return true;
}

bool ReadSelector(std::string_view cel, DeviceMatch& match) {
  Cursor cursor(cel);
  do {
    if (!TakeComparison(cursor, match)) return false;
  } while (cursor.Take("&&"));
  return cursor.AtEnd();
}

SliceDevice ReadDevice(Reader& reader, Object object, std::string_view driver) {
  SliceDevice device;
  device.name = reader.Text(object, "name");
  device.divisible = reader.Bool(object, "allowMultipleAllocations");
  reader.List(object, "consumesCounters", kMaxDevices, [&](Element) { device.divisible = true; });
  reader.ObjectList(object, "taints", kMaxDevices, [&](Object taint) {
    const std::string_view effect = reader.Text(taint, "effect");
    device.tainted |= effect == "NoSchedule" || effect == "NoExecute";
  });
  std::size_t count = 0;
  reader.Map(object, "attributes", [&](std::string_view name, Element value) {
    std::string_view text;
    if (value["string"].get(text) != simdjson::SUCCESS || ++count > kMaxAttributes) return;
    // A name without a domain belongs to the driver's domain.
    std::string key(name);
    if (key.find('/') == std::string::npos) key = std::string(driver) + '/' + key;
    device.attributes.emplace(std::move(key), text);
  });
  return device;
}

}  // namespace

std::optional<DeviceMatch> ReadDeviceSelector(std::string_view cel) {
  DeviceMatch match;
  if (cel.size() > kMaxExpression || !ReadSelector(cel, match)) return std::nullopt;
  return match;
}

std::expected<DeviceClass, DecodeError> DecodeDeviceClass(Element json) {
  return DecodeStrictly<DeviceClass>(json, [](Reader& reader, Object object, DeviceClass& result) {
    DeviceMatch match;
    bool understood = true;
    reader.ObjectField(object, "spec", [&](Object spec) {
      result.extended_resource = reader.Text(spec, "extendedResourceName");
      reader.ObjectList(spec, "selectors", kMaxSelectors, [&](Object selector) {
        std::string_view cel;
        reader.ObjectField(selector, "cel", [&](Object expression) {
          cel = reader.Text(expression, "expression", kMaxExpression);
        });
        understood = understood && ReadSelector(cel, match);
      });
    });
    if (understood) result.match = std::move(match);
  });
}

std::expected<ResourceSlice, DecodeError> DecodeResourceSlice(Element json) {
  return DecodeStrictly<ResourceSlice>(
      json, [](Reader& reader, Object object, ResourceSlice& slice) {
        reader.ObjectField(object, "spec", [&](Object spec) {
          slice.node = reader.Text(spec, "nodeName");
          slice.driver = reader.Text(spec, "driver");
          reader.ObjectField(spec, "pool", [&](Object pool) {
            slice.pool = reader.Text(pool, "name");
            slice.generation = Int64(reader, pool, "generation", 0);
            slice.slice_count = Int64(reader, pool, "resourceSliceCount", 1);
          });
          reader.ObjectList(spec, "devices", kMaxDevices, [&](Object device) {
            slice.devices.push_back(ReadDevice(reader, device, slice.driver));
          });
        });
      });
}

std::expected<ResourceClaim, DecodeError> DecodeResourceClaim(Element json) {
  return DecodeStrictly<ResourceClaim>(
      json, [](Reader& reader, Object object, ResourceClaim& claim) {
        std::string owner;
        reader.ObjectField(object, "metadata", [&](Object metadata) {
          reader.ObjectField(metadata, "annotations", [&](Object annotations) {
            claim.for_extended_resource = reader.Text(annotations, kExtendedClaim) == "true";
          });
          reader.ObjectList(metadata, "ownerReferences", kMaxOwners, [&](Object reference) {
            if (reader.Bool(reference, "controller")) owner = reader.Text(reference, "uid");
          });
        });
        reader.ObjectField(object, "status", [&](Object status) {
          // Only the pod that a claim was made for is charged for its devices. A claim that is
          // reserved for another pod does not count as made for an extended resource.
          reader.ObjectList(status, "reservedFor", kMaxConsumers, [&](Object consumer) {
            claim.for_extended_resource &= reader.Text(consumer, "uid") == owner;
          });
          reader.ObjectField(status, "allocation", [&](Object allocation) {
            reader.ObjectField(allocation, "devices", [&](Object devices) {
              reader.ObjectList(devices, "results", kMaxDevices, [&](Object result) {
                if (reader.Bool(result, "adminAccess")) return;
                claim.devices.push_back({.driver = std::string(reader.Text(result, "driver")),
                                         .pool = std::string(reader.Text(result, "pool")),
                                         .device = std::string(reader.Text(result, "device"))});
              });
            });
          });
        });
      });
}

}  // namespace berth::kube
